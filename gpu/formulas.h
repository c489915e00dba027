/* SPDX-License-Identifier: MIT */
/*
** Unary and binary elementwise functions, of real numbers of the type T, and slopes of activations:
** one list for the kernels that ask which function it is (functions.cuh) and for those that are
** compiled for one chain of them (fused/text.cu), which read this file as text.  So it stands
** alone.
*/
#ifndef RIDGE_GPU_FORMULAS_H
#define RIDGE_GPU_FORMULAS_H

/* clang-format off */
/* Of x.  nan goes through all of them; of softplus, log(1 + e^x), only the harmless half is an
** exponential. */
#define RG_ONE_FORMULAS(F)                                                 \
  F(NEG,        -x)                                                        \
  F(ABS,        fabs(x))                                                   \
  F(SIGN,       x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)          \
  F(SQUARE,     x * x)                                                     \
  F(RELU,       x < 0 ? (T)0 : x)                                          \
  F(FLOOR,      floor(x))                                                  \
  F(CEIL,       ceil(x))                                                   \
  F(ROUND,      rint(x))                                                   \
  F(SQRT,       sqrt(x))                                                   \
  F(RSQRT,      (T)1 / sqrt(x))                                            \
  F(RECIPROCAL, (T)1 / x)                                                  \
  F(EXP,        exp(x))                                                    \
  F(LOG,        log(x))                                                    \
  F(LOG1P,      log1p(x))                                                  \
  F(SIN,        sin(x))                                                    \
  F(COS,        cos(x))                                                    \
  F(TANH,       tanh(x))                                                   \
  F(ERF,        erf(x))                                                    \
  F(SIGMOID,    (T)1 / ((T)1 + exp(-x)))                                   \
  F(GELU,       (T)0.5 * x * ((T)1 + erf(x * (T)0.70710678118654752440)))  \
  F(SILU,       x / ((T)1 + exp(-x)))                                      \
  F(SOFTPLUS,   (x < 0 ? (T)0 : x) + log1p(exp(-fabs(x))))

/* Of x and y.  x != x finds nan, which wins on either side. */
#define RG_TWO_FORMULAS(F)                                                 \
  F(ADD,        x + y)                                                     \
  F(SUB,        x - y)                                                     \
  F(MUL,        x * y)                                                     \
  F(DIV,        x / y)                                                     \
  F(POW,        y == (T)2 ? x * x : pow(x, y))                             \
  F(MAXIMUM,    x != x ? x : x > y ? x : y)                                \
  F(MINIMUM,    x != x ? x : x < y ? x : y)

/* Of an activation: x is its result or, for gelu and silu, what went into it.  The slope of silu is
** s (1 + x (1 - s)) with s the sigmoid of x, that of gelu
** (1 + erf(x / sqrt 2)) / 2 + x exp(-x^2 / 2) / sqrt(2 pi). */
#define RG_SLOPE_FORMULAS(F)                                               \
  F(RELU,       x > 0 ? (T)1 : (T)0)                                       \
  F(TANH,       1 - x * x)                                                 \
  F(SIGMOID,    x * (1 - x))                                               \
  F(SILU,       (T)1 / ((T)1 + exp(-x)) *                                  \
                  (1 + x * (1 - (T)1 / ((T)1 + exp(-x)))))                 \
  F(GELU,       (T)0.5 * (1 + erf(x * (T)0.70710678118654752440)) +        \
                  x * (T)0.39894228040143267794 * exp((T)-0.5 * x * x))
/* clang-format on */

#endif
