/* SPDX-License-Identifier: MIT */
/*
** Sketched linear (Panther's SKLinear, docs/why/definitions.md 1.1): its three signatures, shape
** rules and costs.  Over all terms at once it is two products,
**
**   z = x [S1|U2],   y = dropout(act(1/(2T) z [U1;S2] + bias)),
**
** because the sum over terms is the inner sum of the second product.  The kernel is
** core/cpu/sketch.c.
*/
#include "op/dropout.h"
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"
#include "op/signs.h"

/* -- What all forms check ------------------------------------------------------------ */

static rg_status check_args(const rg_call *call)
{
  const rg_sketch_args *args = call->args;

  RG_TRY(rg_product_act(call, args->act));
  if (args->n_terms < 1) {
    return rg_fail(RG_EARG, "%s: %d terms", call->op->name, args->n_terms);
  }
  return rg_check_args(call);
}

/* The result, the hidden z that the gradients read (F79), and the draws. */
static rg_status fill_out(rg_call *call, int64_t n_in, int64_t width, int64_t n_out, int32_t bias,
                          int32_t dtype)
{
  const rg_sketch_args *args = call->args;

  RG_TRY(rg_product_rows(call, n_in, n_out, dtype, &call->out[0]));
  RG_TRY(rg_product_bias(call, bias, n_out));
  RG_TRY(rg_product_rows(call, n_in, width, dtype, &call->out[1]));
  call->out[2] = rg_draw_meta();
  call->n_out = 3;
  call->compute = -1;
  call->weight_cast = dtype;
  call->n_draws = args->p > 0 ? rg_meta_count(&call->out[0]) : 0;
  return RG_OK;
}

static rg_cost sketch_cost(const rg_call *call)
{
  int64_t n_in = call->in[0]->_shape[call->in[0]->_ndim - 1];
  int64_t n_out = call->out[0].shape[call->out[0].ndim - 1];
  double z = (double)rg_meta_count(&call->out[1]);

  /* each element of z takes part in n_in multiply-adds of the first product and n_out of the
  ** second */
  return rg_cost_of(call, 2.0 * z * (double)(n_in + n_out));
}

/* -- Stored signs ------------------------------------------------------------------------ */

static rg_status sketched_infer(rg_call *call)
{
  const rg_sketch_args *args = call->args;
  int32_t dtype;

  RG_TRY(check_args(call));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "left"));
  int64_t width = call->in[1]->_shape[1];
  RG_TRY(rg_product_matrix(call, 2, width, -1, "right"));
  if (width % (2 * (int64_t)args->n_terms) != 0) {
    return rg_fail(RG_ESHAPE, "%s: left has %lld columns, which is not 2 * %d terms * rank",
                   call->op->name, (long long)width, args->n_terms);
  }
  return fill_out(call, call->in[1]->_shape[0], width, call->in[2]->_shape[1], 3, dtype);
}

static const rg_arg sketch_args[] = { RG_SKETCH_ARGS(RG_ARG_ROW, rg_sketch_args, ) };

const rg_op rg_op_sketched_linear = {
  .name = "sketched_linear",
  .doc = "(x left) right / (2 n_terms), plus the bias, through an activation and dropout",
  .id = RG_OP_SKETCHED_LINEAR,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("left", WEIGHT, FLOAT), RG_IN("right", WEIGHT, FLOAT),
            RG_OPTIONAL("bias", BIAS, FLOAT)),
  .result = { "y", "inner", "draw" },
  .save_in = 15,
  .save_out = 1,
  .n_hidden = 2,
  .draws = true,
  RG_ARGS(rg_sketch_args, sketch_args),
  .infer = sketched_infer,
  .grad = rg_sketched_grad,
  .save = rg_sketched_save,
  .cost = sketch_cost,
};

rg_status rg_sketched_linear(const rg_tensor *x, const rg_tensor *left, const rg_tensor *right,
                             const rg_tensor *bias, int32_t n_terms, int32_t act, double p,
                             rg_generator *generator, rg_tensor **out)
{
  rg_sketch_args args = { .p = p, .n_terms = n_terms, .act = act };
  rg_call call = { .op = &rg_op_sketched_linear,
                   .in = (const rg_tensor *const[]){ x, left, right, bias },
                   .n_in = 4,
                   .args = &args,
                   .generator = generator };

  return rg_run_fresh(&call, out);
}

/* -- One bit a sign ----------------------------------------------------------------------- */

static rg_status bits_check(const rg_call *call, int32_t i, const char *what)
{
  if (call->in[i]->_dtype != RG_U8) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted u8", call->op->name, what,
                   rg_dtype_name(call->in[i]->_dtype));
  }
  return RG_OK;
}

static rg_status check_terms(const rg_call *call, int64_t half)
{
  const rg_sketch_args *args = call->args;

  if (half % args->n_terms != 0) {
    return rg_fail(RG_ESHAPE, "%s: s1 has %lld columns, which is not %d terms * rank",
                   call->op->name, (long long)half, args->n_terms);
  }
  return RG_OK;
}

static rg_status bits_infer(rg_call *call)
{
  int32_t dtype;

  RG_TRY(check_args(call));
  RG_TRY(bits_check(call, 2, "u1_bits"));
  RG_TRY(bits_check(call, 3, "u2_bits"));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "s1"));
  int64_t n_in = call->in[1]->_shape[0];
  int64_t half = call->in[1]->_shape[1];
  RG_TRY(rg_product_matrix(call, 4, half, -1, "s2"));
  int64_t n_out = call->in[4]->_shape[1];
  RG_TRY(rg_product_matrix(call, 2, half, (n_out + 7) / 8, "u1_bits"));
  RG_TRY(rg_product_matrix(call, 3, n_in, (half + 7) / 8, "u2_bits"));
  RG_TRY(check_terms(call, half));
  return fill_out(call, n_in, 2 * half, n_out, 5, dtype);
}

const rg_op rg_op_sketched_linear_bits = {
  .name = "sketched_linear_bits",
  .doc = "sketched_linear with the fixed signs kept as one bit each",
  .id = RG_OP_SKETCHED_LINEAR_BITS,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("s1", WEIGHT, FLOAT), RG_IN("u1_bits", BITS, ANY),
            RG_IN("u2_bits", BITS, ANY), RG_IN("s2", WEIGHT, FLOAT),
            RG_OPTIONAL("bias", BIAS, FLOAT)),
  .result = { "y", "inner", "draw" },
  .save_in = 63,
  .save_out = 1,
  .n_hidden = 2,
  .draws = true,
  RG_ARGS(rg_sketch_args, sketch_args),
  .infer = bits_infer,
  .grad = rg_sketched_bits_grad,
  .save = rg_sketched_save,
  .cost = sketch_cost,
};

rg_status rg_sketched_linear_bits(const rg_tensor *x, const rg_tensor *s1, const rg_tensor *u1_bits,
                                  const rg_tensor *u2_bits, const rg_tensor *s2,
                                  const rg_tensor *bias, int32_t n_terms, int32_t act, double p,
                                  rg_generator *generator, rg_tensor **out)
{
  rg_sketch_args args = { .p = p, .n_terms = n_terms, .act = act };
  rg_call call = { .op = &rg_op_sketched_linear_bits,
                   .in = (const rg_tensor *const[]){ x, s1, u1_bits, u2_bits, s2, bias },
                   .n_in = 6,
                   .args = &args,
                   .generator = generator };

  return rg_run_fresh(&call, out);
}

/* -- Signs from a seed --------------------------------------------------------------------- */

static rg_status seed_infer(rg_call *call)
{
  int32_t dtype;

  RG_TRY(check_args(call));
  RG_TRY(rg_check_seed(call, 2));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "s1"));
  int64_t n_in = call->in[1]->_shape[0];
  int64_t half = call->in[1]->_shape[1];
  RG_TRY(rg_product_matrix(call, 3, half, -1, "s2"));
  int64_t n_out = call->in[3]->_shape[1];
  RG_TRY(rg_check_signs(call, half, n_out));
  RG_TRY(rg_check_signs(call, n_in, half));
  RG_TRY(check_terms(call, half));
  if (call->device == RG_CPU) { /* the bits, while the call runs */
    call->scratch_bytes = rg_sign_bytes(half, n_out) + rg_sign_bytes(n_in, half);
  }
  return fill_out(call, n_in, 2 * half, n_out, 4, dtype);
}

/* The least there is to do: a block of 100 operations for 128 signs. */
static rg_cost seed_cost(const rg_call *call)
{
  rg_cost cost = sketch_cost(call);
  double signs = (double)(call->in[1]->_count + call->in[3]->_count);

  cost.flops += 100.0 / 128.0 * signs;
  return cost;
}

const rg_op rg_op_sketched_linear_seed = {
  .name = "sketched_linear_seed",
  .doc = "sketched_linear with the fixed signs made from a seed as they are used",
  .id = RG_OP_SKETCHED_LINEAR_SEED,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("s1", WEIGHT, FLOAT), RG_IN("seed", BITS, ANY),
            RG_IN("s2", WEIGHT, FLOAT), RG_OPTIONAL("bias", BIAS, FLOAT)),
  .result = { "y", "inner", "draw" },
  .save_in = 31,
  .save_out = 1,
  .n_hidden = 2,
  .draws = true,
  RG_ARGS(rg_sketch_args, sketch_args),
  .infer = seed_infer,
  .grad = rg_sketched_seed_grad,
  .save = rg_sketched_save,
  .cost = seed_cost,
};

rg_status rg_sketched_linear_seed(const rg_tensor *x, const rg_tensor *s1, const rg_tensor *seed,
                                  const rg_tensor *s2, const rg_tensor *bias, int32_t n_terms,
                                  int32_t act, double p, rg_generator *generator, rg_tensor **out)
{
  rg_sketch_args args = { .p = p, .n_terms = n_terms, .act = act };
  rg_call call = { .op = &rg_op_sketched_linear_seed,
                   .in = (const rg_tensor *const[]){ x, s1, seed, s2, bias },
                   .n_in = 5,
                   .args = &args,
                   .generator = generator };

  return rg_run_fresh(&call, out);
}
