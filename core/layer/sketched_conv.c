/* SPDX-License-Identifier: MIT */
/*
** Sketched convolutions: into 2TR channels by a trained kernel, from there by fixed signs.
*/
#include "layer/compound.h"

/* clang-format off */
#define RG_TERMS_ARGS(A, S, AT) \
  A(S, AT, i64, terms, WHOLE, RG_REQUIRED, "of the sketch")
/* clang-format on */
typedef struct rg_sketched_conv2d_args {
  RG_TERMS_ARGS(RG_ARG_FIELD, rg_sketched_conv2d_args, )
  rg_conv2d_options o; /* of the convolution with s */
} rg_sketched_conv2d_args;

static rg_status infer(rg_call *call)
{
  const rg_sketched_conv2d_args *args = call->args;
  const rg_tensor *s = call->in[1];
  const rg_tensor *u = call->in[2];
  char a[128];
  char b[128];

  if (s->_ndim != 4 || u->_ndim != 2 || s->_shape[0] != u->_shape[0]) {
    return rg_fail(RG_ESHAPE, "sketched_conv2d: s is %s and u %s, wanted [2TR,c,kh,kw], [2TR,o]",
                   rg_tensor_text(s, a, sizeof(a)), rg_tensor_text(u, b, sizeof(b)));
  }
  if (args->terms < 1) {
    return rg_fail(RG_EARG, "sketched_conv2d: %lld terms; at least 1 is wanted",
                   (long long)args->terms);
  }
  if (args->o.groups > 1 || args->o.layout != RG_NCHW) {
    return rg_fail(RG_EARG, "sketched_conv2d: it has no groups, and channels come second");
  }
  return RG_OK;
}

static rg_value convolved(rg_compose *f, rg_value x, rg_value w, rg_value b,
                          const rg_conv2d_options *options)
{
  RG_F_STEP(rg_conv2d(x, w, b, options, &out));
}

static rg_status expand(const rg_call *call, rg_tensor **out)
{
  const rg_sketched_conv2d_args *args = call->args;
  const rg_tensor *u = call->in[2];
  rg_compose f = { .what = "sketched_conv2d" };
  rg_value z = convolved(&f, call->in[0], call->in[1], NULL, &args->o);
  rg_value transposed = rg_f_times(&f, rg_f_swapped(&f, u, 0, 1), 0.5 / (double)args->terms);
  int64_t shape[] = { u->_shape[1], u->_shape[0], 1, 1 };
  rg_value w = rg_f_shaped(&f, transposed, shape, 4);

  if (z != NULL) {
    w = rg_f_cast(&f, w, z->_dtype);
  }
  return rg_f_give(&f, convolved(&f, z, w, call->in[3], NULL), out);
}

static const rg_arg sketched_conv2d_args[] = { RG_TERMS_ARGS(RG_ARG_ROW, rg_sketched_conv2d_args, )
                                                   RG_CONV2D_OPTIONS(RG_ARG_ROW,
                                                                     rg_sketched_conv2d_args, o.) };

const rg_op rg_op_sketched_conv2d = {
  .name = "sketched_conv2d",
  .doc = "a convolution by a sketched kernel: trained, then fixed signs",
  .id = RG_OP_SKETCHED_CONV2D,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_IN("s", WEIGHT, ANY), RG_IN("u", WEIGHT, ANY),
            RG_OPTIONAL("b", BIAS, ANY)),
  .result = { "y" },
  RG_ARGS(rg_sketched_conv2d_args, sketched_conv2d_args),
  .infer = infer,
  .expand = expand,
};

rg_status rg_sketched_conv2d(const rg_tensor *x, const rg_tensor *s, const rg_tensor *u,
                             const rg_tensor *b, int64_t terms, const rg_conv2d_options *options,
                             rg_tensor **out)
{
  rg_sketched_conv2d_args args = { .terms = terms };

  if (options != NULL) {
    args.o = *options;
  }
  return rg_run_body(&rg_op_sketched_conv2d, (const rg_tensor *const[]){ x, s, u, b }, 4, &args,
                     out);
}
