/* SPDX-License-Identifier: MIT */
/*
** Binary elementwise functions: signatures, shape and type rules, cost and public entries of
** RG_BINARY_LIST.  The functions are in core/cpu/simd/binary.c, the kernels in core/cpu/binary.c.
*/
#include <math.h>

#include "op/binary.h"
#include "op/list.h"
#include "op/op.h"
#include "tensor/dtype.h"

/* -- Facts ------------------------------------------------------------------------- */

/* clang-format off */
/*
** name, operations an element, mixed-precision class, what the gradient reads (bits of the inputs,
** of the result).  A power is a logarithm, a product and an exponential (see op/unary.c for what
** counts as one operation).
*/
#define FACTS_LIST(F)                           \
  F(ADD,                  1, WIDEST, 0, 0)      \
  F(SUB,                  1, WIDEST, 0, 0)      \
  F(MUL,                  1, WIDEST, 3, 0)      \
  F(DIV,                  1, WIDEST, 3, 0)      \
  F(POW,                 21, F32,    3, 1)      \
  F(MAXIMUM,              1, WIDEST, 3, 0)      \
  F(MINIMUM,              1, WIDEST, 3, 0)      \
  F(REMAINDER,            4, WIDEST, 3, 0)      \
  F(FMOD,                 3, WIDEST, 3, 0)      \
  F(FLOOR_DIVIDE,         5, WIDEST, 0, 0)      \
  F(TRUNC_DIVIDE,         2, WIDEST, 0, 0)      \
  F(ATAN2,               11, WIDEST, 3, 0)      \
  F(PRELU,                2, WIDEST, 3, 0)      \
  F(ELU,                 12, WIDEST, 3, 0)      \
  F(CELU,                13, WIDEST, 3, 0)      \
  F(THRESHOLD,            1, WIDEST, 3, 0)      \
  F(EQ,                   1, WIDEST, 0, 0)      \
  F(NE,                   1, WIDEST, 0, 0)      \
  F(LT,                   1, WIDEST, 0, 0)      \
  F(LE,                   1, WIDEST, 0, 0)      \
  F(GT,                   1, WIDEST, 0, 0)      \
  F(GE,                   1, WIDEST, 0, 0)      \
  F(LOGICAL_AND,          1, WIDEST, 0, 0)      \
  F(LOGICAL_OR,           1, WIDEST, 0, 0)      \
  F(LOGICAL_XOR,          1, WIDEST, 0, 0)      \
  F(BITWISE_AND,          1, NONE,   0, 0)      \
  F(BITWISE_OR,           1, NONE,   0, 0)      \
  F(BITWISE_XOR,          1, NONE,   0, 0)      \
  F(BITWISE_LEFT_SHIFT,   1, NONE,   0, 0)      \
  F(BITWISE_RIGHT_SHIFT,  1, NONE,   0, 0)
/* clang-format on */

#define CONSTANTS(NAME, flops, amp, in, out) \
  AMP_##NAME = RG_AMP_##amp, SAVE_IN_##NAME = in, SAVE_OUT_##NAME = out,
enum { FACTS_LIST(CONSTANTS) };

enum { ARITH, RATIO, COMPARE, INTEGER };

#define CLASS_ROW(NAME, lower, help, class) [RG_OP_##NAME - RG_OP_ADD] = class,
static const int8_t classes[] = { RG_BINARY_LIST(CLASS_ROW) };

double rg_binary_flops(int32_t id)
{
#define ROW(NAME, flops, amp, in, out) [RG_OP_##NAME - RG_OP_ADD] = flops,
  static const int8_t table[] = { FACTS_LIST(ROW) };
#undef ROW

  return table[id - RG_OP_ADD];
}

/* -- Type -------------------------------------------------------------------------- */

/* Is value a whole number that an integer type holds? */
static bool fits(int32_t dtype, double value)
{
  const rg_dtype *type = &rg_dtypes[dtype];

  return value == floor(value) && value >= (double)type->least && value < (double)type->most + 1;
}

/* The type to compute in for a tensor of a type and a number. */
static rg_status type_with_number(const rg_call *call, int32_t class, int32_t *out)
{
  const rg_binary_args *args = call->args;
  int32_t dtype = call->in[0]->_dtype;
  double value = args->value;

  if (rg_dtype_is_float(dtype)) {
    *out = dtype;
  } else if (class == COMPARE) {
    *out = fits(dtype, value) ? dtype : RG_F64; /* exact up to 2^53 */
  } else if (class != INTEGER && (value != floor(value) || isinf(value))) {
    *out = RG_F32;
  } else {
    *out = dtype == RG_BOOL ? RG_I64 : dtype;
    if ((class == ARITH || class == INTEGER) && !fits(*out, value)) {
      return rg_fail(RG_EARG, "%s: %.17g is not in the range of %s", call->op->name, value,
                     rg_dtype_name(*out));
    }
  }
  return RG_OK;
}

/* Is the function defined for a type? */
static rg_status check_defined(const rg_call *call, int32_t class, int32_t dtype)
{
  switch (call->op->id) {
  case RG_OP_SUB:
  case RG_OP_REMAINDER:
  case RG_OP_FMOD:
  case RG_OP_FLOOR_DIVIDE:
  case RG_OP_TRUNC_DIVIDE:
  case RG_OP_BITWISE_LEFT_SHIFT:
  case RG_OP_BITWISE_RIGHT_SHIFT:
    if (dtype == RG_BOOL) {
      return rg_fail(RG_EDTYPE, "%s: not defined for bool%s", call->op->name,
                     call->op->id == RG_OP_SUB ? "; compare with ne" : "");
    }
    break;
  default:
    break;
  }
  if (class == INTEGER && rg_dtype_is_float(dtype)) {
    return rg_fail(RG_EDTYPE, "%s: not defined for %s, but for integers and bool", call->op->name,
                   rg_dtype_name(dtype));
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  const rg_binary_args *args = call->args;
  int32_t class = classes[call->op->id - RG_OP_ADD];
  int32_t dtype;

  if (args->scalar) {
    RG_TRY(type_with_number(call, class, &dtype));
    call->out[0] = rg_meta_of(call->in[0]);
  } else {
    RG_TRY(rg_tensor_check(call->n_in > 1 ? call->in[1] : NULL, call->op->name));
    dtype = rg_promote(call->in[0]->_dtype, call->in[1]->_dtype);
    RG_TRY(rg_broadcast(call->op, call->in[0], call->in[1], &call->out[0]));
  }
  if (class == RATIO && !rg_dtype_is_float(dtype)) {
    dtype = RG_F32;
  }
  if (rg_autocast_for(call) >= 0 && rg_dtype_is_float(dtype)) {
    dtype = rg_autocast_for(call);
  }
  RG_TRY(check_defined(call, class, dtype));
  call->compute = dtype;
  call->out[0].dtype = class == COMPARE ? RG_BOOL : dtype;
  call->n_out = 1;
  return RG_OK;
}

/* -- Cost ------------------------------------------------------------------------------ */

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, rg_binary_flops(call->op->id) * (double)rg_meta_count(&call->out[0]));
}

/* -- Records and entries ----------------------------------------------------------------- */

static const rg_arg binary_args[] = { RG_BINARY_ARGS(RG_ARG_ROW, rg_binary_args, ) };

/* comparisons have none: their results are no numbers */
#define GRAD_OF(class) (class == ARITH || class == RATIO ? rg_binary_grad : NULL)

#define RECORD(NAME, lower, help, class)                                                          \
  extern const rg_op rg_op_##lower;                                                               \
  const rg_op rg_op_##lower = {                                                                   \
    .name = #lower,                                                                               \
    .doc = help,                                                                                  \
    .id = RG_OP_##NAME,                                                                           \
    .amp = AMP_##NAME,                                                                            \
    RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("y", INPUT, ANY)),                              \
    .result = { "z" },                                                                            \
    .method = true,                                                                               \
    .save_in = SAVE_IN_##NAME,                                                                    \
    .save_out = SAVE_OUT_##NAME,                                                                  \
    RG_ARGS(rg_binary_args, binary_args),                                                         \
    .infer = infer,                                                                               \
    .grad = GRAD_OF(class),                                                                       \
    .save = rg_binary_save,                                                                       \
    .cost = cost,                                                                                 \
  };                                                                                              \
  rg_status rg_##lower(const rg_tensor *x, const rg_tensor *y, rg_tensor **out)                   \
  {                                                                                               \
    return rg_run1(&rg_op_##lower, (const rg_tensor *const[]){ x, y }, 2, &(rg_binary_args){ 0 }, \
                   out);                                                                          \
  }                                                                                               \
  rg_status rg_##lower##_(rg_tensor *x, const rg_tensor *y)                                       \
  {                                                                                               \
    return rg_run_into(&rg_op_##lower, (const rg_tensor *const[]){ x, y }, 2,                     \
                       &(rg_binary_args){ 0 }, x);                                                \
  }                                                                                               \
  rg_status rg_##lower##_scalar(const rg_tensor *x, double value, int32_t reversed,               \
                                rg_tensor **out)                                                  \
  {                                                                                               \
    return rg_run1(&rg_op_##lower, (const rg_tensor *const[]){ x }, 1,                            \
                   &(rg_binary_args){ .scalar = 1, .reversed = reversed, .value = value }, out);  \
  }                                                                                               \
  rg_status rg_##lower##_scalar_(rg_tensor *x, double value)                                      \
  {                                                                                               \
    return rg_run_into(&rg_op_##lower, (const rg_tensor *const[]){ x }, 1,                        \
                       &(rg_binary_args){ .scalar = 1, .value = value }, x);                      \
  }
RG_BINARY_LIST(RECORD)
