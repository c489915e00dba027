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
/* name, mixed-precision class, what the gradient reads (bits of the inputs, of the result) */
#define FACTS_LIST(F)       \
  F(ADD,     WIDEST, 0, 0)  \
  F(SUB,     WIDEST, 0, 0)  \
  F(MUL,     WIDEST, 3, 0)  \
  F(DIV,     WIDEST, 3, 0)  \
  F(POW,     F32,    3, 1)  \
  F(MAXIMUM, WIDEST, 3, 0)  \
  F(MINIMUM, WIDEST, 3, 0)  \
  F(EQ,      WIDEST, 0, 0)  \
  F(NE,      WIDEST, 0, 0)  \
  F(LT,      WIDEST, 0, 0)  \
  F(LE,      WIDEST, 0, 0)  \
  F(GT,      WIDEST, 0, 0)  \
  F(GE,      WIDEST, 0, 0)  \
  F(LOGICAL_AND, WIDEST, 0, 0) \
  F(LOGICAL_OR,  WIDEST, 0, 0) \
  F(LOGICAL_XOR, WIDEST, 0, 0)
/* clang-format on */

#define CONSTANTS(NAME, amp, in, out) \
  AMP_##NAME = RG_AMP_##amp, SAVE_IN_##NAME = in, SAVE_OUT_##NAME = out,
enum { FACTS_LIST(CONSTANTS) };

enum { ARITH, RATIO, COMPARE };

#define CLASS_ROW(NAME, lower, help, class) [RG_OP_##NAME - RG_OP_ADD] = class,
static const int8_t classes[] = { RG_BINARY_LIST(CLASS_ROW) };

/* A power is a logarithm, a product and an exponential (see op/unary.c for what counts as one). */
double rg_binary_flops(int32_t id)
{
  return id == RG_OP_POW ? 21.0 : 1.0;
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
  } else if (value != floor(value) || isinf(value)) {
    *out = RG_F32;
  } else {
    *out = dtype == RG_BOOL ? RG_I64 : dtype;
    if (class == ARITH && !fits(*out, value)) {
      return rg_fail(RG_EARG, "%s: %.17g is not in the range of %s", call->op->name, value,
                     rg_dtype_name(*out));
    }
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
  if (dtype == RG_BOOL && call->op->id == RG_OP_SUB) {
    return rg_fail(RG_EDTYPE, "%s: not defined for bool; compare with ne", call->op->name);
  }
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
#define GRAD_OF(class) (class == COMPARE ? NULL : rg_binary_grad)

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
