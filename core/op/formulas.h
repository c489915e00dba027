/* SPDX-License-Identifier: MIT */
/*
** Unary and binary elementwise functions and the slopes of activations, each written once: for the
** loops of the CPU (cpu/vec_unary.h, cpu/simd), for kernels of GPUs (gpu/functions.cuh) and for
** kernels that are compiled at run time, which read this file as text (gpu/fused/text.cu).  So it
** stands alone.
**
** F(NAME, name, formula) for each.  In a formula T is the type of x and y, U an unsigned type at
** least as wide as int, in which overflow is defined.  C(f) is the C library's function f for T,
** E(x) the exponential and P(x, y) the power, of which there are several; R(x) is the error
** function where only its absolute error counts, because 1 is added; D(x, y) is x / y for y >= 1;
** S(c, a, b) is a where c holds, else b, where loops have computed both.
*/
#ifndef RIDGE_OP_FORMULAS_H
#define RIDGE_OP_FORMULAS_H

/* clang-format off */
/* Of x, floating point.  nan goes through all of them; of softplus, log(1 + e^x), only the harmless
** half is an exponential. */
#define RG_UNARY_FORMULAS(F, C, E, R, D)                                                 \
  F(NEG,        neg,        -x)                                                          \
  F(ABS,        abs,        C(fabs)(x))                                                  \
  F(SIGN,       sign,       x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)            \
  F(SQUARE,     square,     x * x)                                                       \
  F(RELU,       relu,       x < 0 ? (T)0 : x)                                            \
  F(FLOOR,      floor,      C(floor)(x))                                                 \
  F(CEIL,       ceil,       C(ceil)(x))                                                  \
  F(ROUND,      round,      C(rint)(x))                                                  \
  F(SQRT,       sqrt,       C(sqrt)(x))                                                  \
  F(RSQRT,      rsqrt,      (T)1 / C(sqrt)(x))                                           \
  F(RECIPROCAL, reciprocal, (T)1 / x)                                                    \
  F(EXP,        exp,        E(x))                                                        \
  F(LOG,        log,        C(log)(x))                                                   \
  F(LOG1P,      log1p,      C(log1p)(x))                                                 \
  F(SIN,        sin,        C(sin)(x))                                                   \
  F(COS,        cos,        C(cos)(x))                                                   \
  F(TANH,       tanh,       C(tanh)(x))                                                  \
  F(ERF,        erf,        C(erf)(x))                                                   \
  F(SIGMOID,    sigmoid,    D((T)1, (T)1 + E(-x)))                                       \
  F(GELU,       gelu,       (T)0.5 * x * ((T)1 + R(x * (T)0.70710678118654752440)))      \
  F(SILU,       silu,       D(x, (T)1 + E(-x)))                                          \
  F(SOFTPLUS,   softplus,   (x < 0 ? (T)0 : x) + C(log1p)(E(-C(fabs)(x))))               \
  F(TRUNC,      trunc,      C(trunc)(x))                                                 \
  F(EXP2,       exp2,       C(exp2)(x))                                                  \
  F(EXPM1,      expm1,      C(expm1)(x))                                                 \
  F(LOG2,       log2,       C(log2)(x))                                                  \
  F(TAN,        tan,        C(tan)(x))                                                   \
  F(ASIN,       asin,       C(asin)(x))                                                  \
  F(ACOS,       acos,       C(acos)(x))                                                  \
  F(ATAN,       atan,       C(atan)(x))                                                  \
  F(SINH,       sinh,       C(sinh)(x))                                                  \
  F(COSH,       cosh,       C(cosh)(x))                                                  \
  F(ASINH,      asinh,      C(asinh)(x))                                                 \
  F(ACOSH,      acosh,      C(acosh)(x))                                                 \
  F(ATANH,      atanh,      C(atanh)(x))                                                 \
  F(SELU,       selu,       (T)1.05070098735548049342 * (x < 0 ? (T)0 : x) +             \
                              (T)1.75809934084737685994 * C(expm1)(x < 0 ? x : (T)0))    \
  F(MISH,       mish,       x * D(RG_MISH_ABOVE(E(-C(fabs)(x))),                         \
                                  RG_MISH_BELOW(E(-C(fabs)(x)))))                        \
  F(SOFTSIGN,   softsign,   D(x, (T)1 + C(fabs)(x)))                                     \
  F(HARDSIGMOID, hardsigmoid, RG_HARD_SIX / (T)6)                                        \
  F(HARDSWISH,  hardswish,  x * (RG_HARD_SIX / (T)6))                                    \
  F(RELU6,      relu6,      x < 0 ? (T)0 : x > 6 ? (T)6 : x)

/* tanh(log(1 + e^x)) as a quotient without cancellation, of t = e^-|x|: multiplied out, with t^2 in
** both where x > 0. */
#define RG_MISH_ABOVE(t) (x < 0 ? (t) * ((t) + 2) : 1 + 2 * (t))
#define RG_MISH_BELOW(t) (x < 0 ? (t) * ((t) + 2) + 2 : 1 + 2 * (t) + 2 * (t) * (t))

/* x + 3 in 0 .. 6 */
#define RG_HARD_SIX (x < -3 ? (T)0 : x > 3 ? (T)6 : x + 3)

/* Of x and y, floating point.  x != x finds nan, which wins on either side. */
#define RG_BINARY_FORMULAS(F, C, P, S)                                                   \
  F(ADD,        add,        x + y)                                                       \
  F(SUB,        sub,        x - y)                                                       \
  F(MUL,        mul,        x * y)                                                       \
  F(DIV,        div,        x / y)                                                       \
  F(POW,        pow,        P(x, y))                                                     \
  F(MAXIMUM,    maximum,    S(x != x, x, x > y ? x : y))                                 \
  F(MINIMUM,    minimum,    S(x != x, x, x < y ? x : y))                                 \
  F(REMAINDER,  remainder,  C(fmod)(x, y) + (RG_TURNS(C(fmod)(x, y), y) ? y : (T)0))     \
  F(FMOD,       fmod,       C(fmod)(x, y))                                               \
  F(FLOOR_DIVIDE, floor_divide,                                                          \
    y == 0 ? x / y : C(rint)((x - C(fmod)(x, y)) / y) - RG_TURNS(C(fmod)(x, y), y))      \
  F(TRUNC_DIVIDE, trunc_divide, C(trunc)(x / y))                                         \
  F(ATAN2,      atan2,      C(atan2)(x, y))                                              \
  F(PRELU,      prelu,      S(x < 0, x * y, x))                                          \
  F(ELU,        elu,        S(x < 0, y * C(expm1)(x), x))                                \
  F(CELU,       celu,       S(x < 0, y * C(expm1)(x / y), x))                            \
  F(THRESHOLD,  threshold,  S(x <= y, (T)0, x))

/* Is a remainder r, of the sign of what was divided, on the other side of 0 than y? */
#define RG_TURNS(r, y) (((r) != 0) & (((r) < 0) != ((y) < 0)))

/* Of integers: they wrap around, as the machine does. */
#define RG_UNARY_INTEGER_FORMULAS(F)                                                     \
  F(NEG,        neg,        0 - (U)x)                                                    \
  F(ABS,        abs,        x < 0 ? (T)(0 - (U)x) : x)                                   \
  F(SIGN,       sign,       (x > 0) - (x < 0))                                           \
  F(SQUARE,     square,     (U)x * (U)x)                                                 \
  F(RELU,       relu,       x < 0 ? 0 : x)                                               \
  F(FLOOR,      floor,      x)                                                           \
  F(CEIL,       ceil,       x)                                                           \
  F(ROUND,      round,      x)                                                           \
  F(TRUNC,      trunc,      x)                                                           \
  F(RELU6,      relu6,      x < 0 ? 0 : x > 6 ? 6 : x)                                   \
  F(BITWISE_NOT, bitwise_not, ~(U)x)
/* (U)y + 1 < 2: y is 0 or -1, by which the machine does not divide all numbers. */
#define RG_BINARY_INTEGER_FORMULAS(F)                                                    \
  F(ADD,        add,        (U)x + (U)y)                                                 \
  F(SUB,        sub,        (U)x - (U)y)                                                 \
  F(MUL,        mul,        (U)x * (U)y)                                                 \
  F(MAXIMUM,    maximum,    x > y ? x : y)                                               \
  F(MINIMUM,    minimum,    x < y ? x : y)                                               \
  F(REMAINDER,  remainder,                                                               \
    (U)y + 1 < 2 ? 0 : RG_TURNS(x % y, y) ? x % y + y : x % y)                           \
  F(FMOD,       fmod,       (U)y + 1 < 2 ? 0 : x % y)                                    \
  F(FLOOR_DIVIDE, floor_divide,                                                          \
    (U)y + 1 < 2 ? (0 - (U)x) * (y != 0) : (U)(x / y) - RG_TURNS(x % y, y))              \
  F(TRUNC_DIVIDE, trunc_divide, (U)y + 1 < 2 ? (0 - (U)x) * (y != 0) : (U)(x / y))       \
  F(BITWISE_AND, bitwise_and, (U)x & (U)y)                                               \
  F(BITWISE_OR, bitwise_or, (U)x | (U)y)                                                 \
  F(BITWISE_XOR, bitwise_xor, (U)x ^ (U)y)                                               \
  F(BITWISE_LEFT_SHIFT, bitwise_left_shift, (U)y < 8 * sizeof(T) ? (U)x << y : 0)        \
  F(BITWISE_RIGHT_SHIFT, bitwise_right_shift,                                            \
    (U)y < 8 * sizeof(T) ? x >> y : 0 - (x < 0))

/* Answers about x: 1 or 0.  H is the largest finite number of T. */
#define RG_TRUTH_FORMULAS(F, H)                                                          \
  F(LOGICAL_NOT, logical_not, x == 0)                                                    \
  F(ISNAN,      isnan,      x != x)                                                      \
  F(ISINF,      isinf,      (x > H) | (x < -H))                                          \
  F(ISPOSINF,   isposinf,   x > H)                                                       \
  F(ISNEGINF,   isneginf,   x < -H)                                                      \
  F(ISFINITE,   isfinite,   (x <= H) & (x >= -H))
#define RG_TRUTH_INTEGER_FORMULAS(F)                                                     \
  F(LOGICAL_NOT, logical_not, x == 0)                                                    \
  F(ISNAN,      isnan,      x != x)                                                      \
  F(ISINF,      isinf,      x != x)                                                      \
  F(ISPOSINF,   isposinf,   x != x)                                                      \
  F(ISNEGINF,   isneginf,   x != x)                                                      \
  F(ISFINITE,   isfinite,   x == x)

/* Answers about x and y, of any type. */
#define RG_COMPARE_FORMULAS(F)                                                           \
  F(EQ,         eq,         x == y)                                                      \
  F(NE,         ne,         x != y)                                                      \
  F(LT,         lt,         x < y)                                                       \
  F(LE,         le,         x <= y)                                                      \
  F(GT,         gt,         x > y)                                                       \
  F(GE,         ge,         x >= y)                                                      \
  F(LOGICAL_AND, logical_and, (x != 0) & (y != 0))                                       \
  F(LOGICAL_OR, logical_or, (x != 0) | (y != 0))                                         \
  F(LOGICAL_XOR, logical_xor, (x != 0) != (y != 0))

/* The slope of an activation: x is its result or, for gelu and silu, what went into it.  That of
** silu is s (1 + x (1 - s)) with s the sigmoid of x, that of gelu
** (1 + erf(x / sqrt 2)) / 2 + x exp(-x^2 / 2) / sqrt(2 pi). */
#define RG_SLOPE_FORMULAS(F, C, E, R, D)                                                 \
  F(RELU,       relu,       x > 0 ? (T)1 : (T)0)                                         \
  F(RELU6,      relu6,      (x > 0) & (x < 6) ? (T)1 : (T)0)                             \
  F(TANH,       tanh,       1 - x * x)                                                   \
  F(SIGMOID,    sigmoid,    x * (1 - x))                                                 \
  F(SILU,       silu,       D((T)1, (T)1 + E(-x)) *                                      \
                              (1 + x * (1 - D((T)1, (T)1 + E(-x)))))                     \
  F(GELU,       gelu,       (T)0.5 * (1 + R(x * (T)0.70710678118654752440)) +            \
                              x * ((T)0.39894228040143267794 * E((T)-0.5 * x * x)))

/* D where it is nothing else. */
#define RG_QUOTIENT(x, y) ((x) / (y))

/* The logarithm to the base 2 of 1 - erf(t) for a float t >= 0, M(a, b, c) being a b + c in one
** rounding: an erf without branches, off by less than 2e-8 where 2^ is exact.  Fitted by a minimax
** of that over 0 .. 3.9; behind, it falls on. */
#define RG_LOG2_ERFC_F32(t, M)                                                           \
  (M(M(M(M(M(M(M(-4.53585926e-05f, t, 0.000445507001f), t, -0.00148943788f), t,          \
             -0.000774637854f), t, 0.0282536894f), t, -0.148481622f), t, -0.918416381f), \
     t, -1.62790859f) * (t))
/* clang-format on */

#endif
