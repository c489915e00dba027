/* SPDX-License-Identifier: MIT */
/*
** Random fills: signatures, how many numbers they take, costs, public entries.  The kernels are in
** core/cpu/random.c; core/cpu/simd/random.c says which number becomes what.
*/
#include <math.h>

#include "op/list.h"
#include "op/op.h"
#include "op/random.h"
#include "tensor/dtype.h"

extern const rg_op rg_op_uniform;
extern const rg_op rg_op_normal;
extern const rg_op rg_op_signs;
extern const rg_op rg_op_randint;

/* -- Common --------------------------------------------------------------------------- */

/* A Philox block of four numbers takes 100 operations, so a number 25. */
static const double flops_a_number = 25.0;

static rg_status infer_float(rg_call *call, const rg_meta *meta, int64_t numbers_an_element)
{
  char text[96];

  RG_TRY(rg_check_computes(call->op, meta->dtype));
  if (!rg_dtype_is_float(meta->dtype)) {
    return rg_fail(RG_EDTYPE, "%s: a float tensor is expected, got %s%s", call->op->name,
                   rg_dtype_name(meta->dtype),
                   rg_shape_text(meta->shape, meta->ndim, text, sizeof(text)));
  }
  call->out[0] = *meta;
  call->n_out = 1;
  call->n_draws = rg_meta_count(meta) * numbers_an_element;
  return RG_OK;
}

static int64_t numbers_of(const rg_meta *meta)
{
  return meta->dtype == RG_F64 ? 2 : 1;
}

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, flops_a_number * (double)call->n_draws);
}

static rg_status run_into(const rg_op *op, const void *args, rg_generator *generator, rg_tensor *x)
{
  rg_call call = { .op = op, .args = args, .generator = generator };

  return rg_run(&call, &x);
}

/* -- Uniform ---------------------------------------------------------------------------- */

static rg_status uniform_infer(rg_call *call)
{
  const rg_uniform_args *args = call->args;

  if (!(args->lo <= args->hi) || !isfinite(args->lo) || !isfinite(args->hi)) {
    return rg_fail(RG_EARG, "%s: no range from %g to %g", call->op->name, args->lo, args->hi);
  }
  return infer_float(call, &args->meta, numbers_of(&args->meta));
}

static const rg_arg uniform_args[] = { RG_UNIFORM_ARGS(RG_ARG_ROW, rg_uniform_args, ) };
static const rg_arg normal_args[] = { RG_NORMAL_ARGS(RG_ARG_ROW, rg_normal_args, ) };
static const rg_arg signs_args[] = { RG_SIGNS_ARGS(RG_ARG_ROW, rg_signs_args, ) };
static const rg_arg randint_args[] = { RG_RANDINT_ARGS(RG_ARG_ROW, rg_randint_args, ) };

const rg_op rg_op_uniform = {
  .name = "uniform",
  .doc = "draws uniform in [lo, hi)",
  .id = RG_OP_UNIFORM,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .method = true,
  .into = true,
  RG_ARGS(rg_uniform_args, uniform_args),
  .draws = true,
  .infer = uniform_infer,
  .cost = cost,
};

rg_status rg_uniform_(rg_tensor *x, double lo, double hi, rg_generator *generator)
{
  RG_TRY(rg_tensor_check(x, "uniform"));
  return run_into(&rg_op_uniform, &(rg_uniform_args){ .meta = rg_meta_of(x), .lo = lo, .hi = hi },
                  generator, x);
}

/* -- Normal ------------------------------------------------------------------------------- */

static rg_status normal_infer(rg_call *call)
{
  const rg_normal_args *args = call->args;

  if (!(args->std >= 0) || !isfinite(args->std) || !isfinite(args->mean)) {
    return rg_fail(RG_EARG, "%s: no normal numbers with mean %g and std %g", call->op->name,
                   args->mean, args->std);
  }
  RG_TRY(infer_float(call, &args->meta, numbers_of(&args->meta)));
  /* they come in pairs: an odd last one takes its partner's numbers too */
  int64_t pair = 2 * numbers_of(&args->meta);

  call->n_draws = rg_round_up(call->n_draws, pair);
  return RG_OK;
}

const rg_op rg_op_normal = {
  .name = "normal",
  .doc = "normal draws",
  .id = RG_OP_NORMAL,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .method = true,
  .into = true,
  RG_ARGS(rg_normal_args, normal_args),
  .draws = true,
  .infer = normal_infer,
  .cost = cost,
};

rg_status rg_normal_(rg_tensor *x, double mean, double std, rg_generator *generator)
{
  RG_TRY(rg_tensor_check(x, "normal"));
  return run_into(&rg_op_normal,
                  &(rg_normal_args){ .meta = rg_meta_of(x), .mean = mean, .std = std }, generator,
                  x);
}

/* -- Signs ---------------------------------------------------------------------------------- */

static rg_status signs_infer(rg_call *call)
{
  const rg_signs_args *args = call->args;

  RG_TRY(infer_float(call, &args->meta, 1));
  call->n_draws = (call->n_draws + 31) / 32; /* a bit each */
  return RG_OK;
}

static rg_cost signs_cost(const rg_call *call)
{
  return rg_cost_of(call,
                    flops_a_number * (double)call->n_draws + (double)rg_meta_count(&call->out[0]));
}

const rg_op rg_op_signs = {
  .name = "signs",
  .doc = "+scale or -scale, each with probability 1/2",
  .id = RG_OP_SIGNS,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .into = true,
  RG_ARGS(rg_signs_args, signs_args),
  .draws = true,
  .infer = signs_infer,
  .cost = signs_cost,
};

rg_status rg_signs_(rg_tensor *x, double scale, rg_generator *generator)
{
  RG_TRY(rg_tensor_check(x, "signs"));
  return run_into(&rg_op_signs, &(rg_signs_args){ .meta = rg_meta_of(x), .scale = scale },
                  generator, x);
}

/* -- Integers ------------------------------------------------------------------------------- */

static rg_status randint_infer(rg_call *call)
{
  const rg_randint_args *args = call->args;
  int32_t dtype = args->meta.dtype;

  RG_TRY(rg_check_computes(call->op, dtype));
  if (!rg_dtype_of_kind(dtype, RG_KIND_WHOLE)) {
    return rg_fail(RG_EDTYPE, "%s: an integer tensor is expected, got %s", call->op->name,
                   rg_dtype_name(dtype));
  }
  if (args->lo >= args->hi || args->lo < rg_dtypes[dtype].least ||
      args->hi - 1 > rg_dtypes[dtype].most) {
    return rg_fail(RG_EARG, "%s: no integers of type %s from %lld up to below %lld", call->op->name,
                   rg_dtype_name(dtype), (long long)args->lo, (long long)args->hi);
  }
  call->out[0] = args->meta;
  call->n_out = 1;
  call->n_draws = 2 * rg_meta_count(&args->meta);
  return RG_OK;
}

const rg_op rg_op_randint = {
  .name = "randint",
  .doc = "integers uniform in [lo, hi)",
  .id = RG_OP_RANDINT,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .into = true,
  RG_ARGS(rg_randint_args, randint_args),
  .draws = true,
  .infer = randint_infer,
  .cost = cost,
};

rg_status rg_randint_(rg_tensor *x, int64_t lo, int64_t hi, rg_generator *generator)
{
  RG_TRY(rg_tensor_check(x, "randint"));
  return run_into(&rg_op_randint, &(rg_randint_args){ .meta = rg_meta_of(x), .lo = lo, .hi = hi },
                  generator, x);
}
