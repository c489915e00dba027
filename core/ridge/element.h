/* SPDX-License-Identifier: MIT */
/*
** Elementwise functions of one and two inputs, and choosing between two tensors.  What is common to
** all operations is in ridge/op.h.
*/
#ifndef RIDGE_ELEMENT_H
#define RIDGE_ELEMENT_H

#include "ridge/tensor.h"

/* -- Elementwise, one input -------------------------------------------------- */

/* clang-format off */
/*
** name, lower-case name, one line of help, class: FLOAT functions turn integers into f32, EXACT
** ones keep the element type, TRUTH ones give bool, INTEGER ones are of integers and bool only.
** The functions themselves are in core/cpu/vec_unary.h.
*/
#define RG_UNARY_LIST(U)                                                \
  U(NEG,        neg,        "-x",                              EXACT)   \
  U(ABS,        abs,        "|x|",                             EXACT)   \
  U(SIGN,       sign,       "-1, 0 or 1; nan stays nan",       EXACT)   \
  U(SQUARE,     square,     "x * x",                           EXACT)   \
  U(RELU,       relu,       "max(x, 0); nan stays nan",        EXACT)   \
  U(FLOOR,      floor,      "largest integer not above x",     EXACT)   \
  U(CEIL,       ceil,       "smallest integer not below x",    EXACT)   \
  U(ROUND,      round,      "nearest integer, ties to even",   EXACT)   \
  U(SQRT,       sqrt,       "square root",                     FLOAT)   \
  U(RSQRT,      rsqrt,      "1 / sqrt(x)",                     FLOAT)   \
  U(RECIPROCAL, reciprocal, "1 / x",                           FLOAT)   \
  U(EXP,        exp,        "e to the x",                      FLOAT)   \
  U(LOG,        log,        "natural logarithm",               FLOAT)   \
  U(LOG1P,      log1p,      "log(1 + x)",                      FLOAT)   \
  U(SIN,        sin,        "sine",                            FLOAT)   \
  U(COS,        cos,        "cosine",                          FLOAT)   \
  U(TANH,       tanh,       "hyperbolic tangent",              FLOAT)   \
  U(ERF,        erf,        "error function",                  FLOAT)   \
  U(SIGMOID,    sigmoid,    "1 / (1 + exp(-x))",               FLOAT)   \
  U(GELU,       gelu,       "x (1 + erf(x / sqrt 2)) / 2",     FLOAT)   \
  U(SILU,       silu,       "x sigmoid(x)",                    FLOAT)   \
  U(SOFTPLUS,   softplus,   "log(1 + exp(x))",                 FLOAT)   \
  U(TRUNC,      trunc,      "x without its fraction",          EXACT)   \
  U(EXP2,       exp2,       "2 to the x",                      FLOAT)   \
  U(EXPM1,      expm1,      "exp(x) - 1",                      FLOAT)   \
  U(LOG2,       log2,       "logarithm to the base 2",         FLOAT)   \
  U(TAN,        tan,        "tangent",                         FLOAT)   \
  U(ASIN,       asin,       "inverse sine",                    FLOAT)   \
  U(ACOS,       acos,       "inverse cosine",                  FLOAT)   \
  U(ATAN,       atan,       "inverse tangent",                 FLOAT)   \
  U(SINH,       sinh,       "hyperbolic sine",                 FLOAT)   \
  U(COSH,       cosh,       "hyperbolic cosine",               FLOAT)   \
  U(ASINH,      asinh,      "inverse hyperbolic sine",         FLOAT)   \
  U(ACOSH,      acosh,      "inverse hyperbolic cosine",       FLOAT)   \
  U(ATANH,      atanh,      "inverse hyperbolic tangent",      FLOAT)   \
  U(SELU,       selu,       "1.0507 elu(x, 1.6733)",           FLOAT)   \
  U(MISH,       mish,       "x tanh(softplus(x))",             FLOAT)   \
  U(SOFTSIGN,   softsign,   "x / (1 + |x|)",                   FLOAT)   \
  U(HARDSIGMOID, hardsigmoid, "min(max(x + 3, 0), 6) / 6",     FLOAT)   \
  U(HARDSWISH,  hardswish,  "x hardsigmoid(x)",                FLOAT)   \
  U(RELU6,      relu6,      "min(max(x, 0), 6); nan stays nan", EXACT)  \
  U(LOGICAL_NOT, logical_not, "x == 0",                        TRUTH)   \
  U(ISNAN,      isnan,      "is it nan?",                      TRUTH)   \
  U(ISINF,      isinf,      "is it infinite, of either sign?", TRUTH)   \
  U(ISPOSINF,   isposinf,   "is it infinity?",                 TRUTH)   \
  U(ISNEGINF,   isneginf,   "is it -infinity?",                TRUTH)   \
  U(ISFINITE,   isfinite,   "neither nan nor infinite?",       TRUTH)   \
  U(BITWISE_NOT, bitwise_not, "each bit the other way",        INTEGER)

/* name, lower-case name, one line of help, class: ARITH keeps the type, RATIO makes integers f32,
** COMPARE gives bool (nan compares false, except ne), INTEGER is of integers and bool only.  By 0
** an integer divides to 0. */
#define RG_BINARY_LIST(B)                                               \
  B(ADD,     add,     "x + y",                                 ARITH)   \
  B(SUB,     sub,     "x - y",                                 ARITH)   \
  B(MUL,     mul,     "x * y",                                 ARITH)   \
  B(DIV,     div,     "x / y",                                 RATIO)   \
  B(POW,     pow,     "x to the y",                            RATIO)   \
  B(MAXIMUM, maximum, "the larger one; nan wins",              ARITH)   \
  B(MINIMUM, minimum, "the smaller one; nan wins",             ARITH)   \
  B(REMAINDER, remainder, "x - y floor(x / y): the sign is y's", ARITH) \
  B(FMOD,    fmod,    "x - y trunc(x / y): the sign is x's",   ARITH)   \
  B(FLOOR_DIVIDE, floor_divide, "floor(x / y)",                ARITH)   \
  B(TRUNC_DIVIDE, trunc_divide, "trunc(x / y)",                ARITH)   \
  B(ATAN2,   atan2,   "the angle of the point (y, x)",         RATIO)   \
  B(PRELU,   prelu,   "x y where x < 0, else x",               RATIO)   \
  B(ELU,     elu,     "y (exp(x) - 1) where x < 0, else x",    RATIO)   \
  B(CELU,    celu,    "y (exp(x / y) - 1) where x < 0, else x", RATIO)  \
  B(THRESHOLD, threshold, "0 where x <= y, else x",            RATIO)   \
  B(EQ,      eq,      "x == y",                                COMPARE) \
  B(NE,      ne,      "x ~= y",                                COMPARE) \
  B(LT,      lt,      "x < y",                                 COMPARE) \
  B(LE,      le,      "x <= y",                                COMPARE) \
  B(GT,      gt,      "x > y",                                 COMPARE) \
  B(GE,      ge,      "x >= y",                                COMPARE) \
  B(LOGICAL_AND, logical_and, "are both other than 0?",        COMPARE) \
  B(LOGICAL_OR,  logical_or,  "is one other than 0?",          COMPARE) \
  B(LOGICAL_XOR, logical_xor, "is just one other than 0?",     COMPARE) \
  B(BITWISE_AND, bitwise_and, "bits set in both",              INTEGER) \
  B(BITWISE_OR,  bitwise_or,  "bits set in one",               INTEGER) \
  B(BITWISE_XOR, bitwise_xor, "bits set in just one",          INTEGER) \
  B(BITWISE_LEFT_SHIFT,  bitwise_left_shift,  "bits moved up by y places", INTEGER) \
  B(BITWISE_RIGHT_SHIFT, bitwise_right_shift, "bits moved down by y places", INTEGER)
/* clang-format on */

/*
** rg_neg(x, out), rg_relu_(x), ...: the function of each element.
**
** x        any element type for EXACT functions but bool; the others take all
** out      new tensor with the shape of x; the form with _ writes into x, which must then have the
**          result's type
** RG_EDTYPE.
*/
#define RG_UNARY_PROTOTYPE(NAME, name, help, class)                         \
  RG_API rg_status rg_##name(const rg_tensor *x, rg_tensor **out) RG_CHECK; \
  RG_API rg_status rg_##name##_(rg_tensor *x) RG_CHECK;
RG_UNARY_LIST(RG_UNARY_PROTOTYPE)

/*
** rg_add(x, y, out), rg_add_(x, y), rg_add_scalar(x, value, reversed, out), ...: of each pair of
** elements.
**
** x, y     shapes that broadcast
** value    a number in y's place, rounded to the tensor's type; a fraction with an integer tensor
**          makes f32
** reversed 1: the number stands in x's place (value - x)
** out      new tensor; the form with _ writes into x, whose shape and type the result must have
** RG_ESHAPE, RG_EDTYPE.
*/
#define RG_BINARY_PROTOTYPE(NAME, name, help, class)                                            \
  RG_API rg_status rg_##name(const rg_tensor *x, const rg_tensor *y, rg_tensor **out) RG_CHECK; \
  RG_API rg_status rg_##name##_(rg_tensor *x, const rg_tensor *y) RG_CHECK;                     \
  RG_API rg_status rg_##name##_scalar(const rg_tensor *x, double value, int32_t reversed,       \
                                      rg_tensor **out) RG_CHECK;                                \
  RG_API rg_status rg_##name##_scalar_(rg_tensor *x, double value) RG_CHECK;
RG_BINARY_LIST(RG_BINARY_PROTOTYPE)

/*
** out[i] = cond[i] ? x[i] : y[i]: which of two tensors each element is taken from.
**
** cond     bool or u8: anything but 0 is true
** x, y     shapes that broadcast with cond's and each other's; mixed element types are promoted,
**          f8e4m3 and f8e5m2 go with their own only.  Bits stay as they are, of nan too
** out      new tensor; where cond takes the other one, no gradient goes back
** RG_ESHAPE, RG_EDTYPE.
*/
RG_API rg_status rg_where(const rg_tensor *cond, const rg_tensor *x, const rg_tensor *y,
                          rg_tensor **out) RG_CHECK;

#endif
