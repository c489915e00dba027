/* SPDX-License-Identifier: MIT */
/*
** Sketched convolutions: into 2TR channels by a trained kernel, from there by fixed signs.
*/
#include "layer/compound.h"

static rg_status check(const rg_tensor *x, const rg_tensor *s, const rg_tensor *u, int64_t terms,
                       const rg_conv2d_options *options)
{
  char a[128];
  char b[128];

  RG_TRY(rg_tensor_check(x, "sketched_conv2d"));
  RG_TRY(rg_tensor_check(s, "sketched_conv2d"));
  RG_TRY(rg_tensor_check(u, "sketched_conv2d"));
  if (s->_ndim != 4 || u->_ndim != 2 || s->_shape[0] != u->_shape[0]) {
    return rg_fail(RG_ESHAPE, "sketched_conv2d: s is %s and u %s, wanted [2TR,c,kh,kw], [2TR,o]",
                   rg_tensor_text(s, a, sizeof(a)), rg_tensor_text(u, b, sizeof(b)));
  }
  if (terms < 1) {
    return rg_fail(RG_EARG, "sketched_conv2d: %lld terms; at least 1 is wanted", (long long)terms);
  }
  if (options != NULL && (options->groups > 1 || options->layout != RG_NCHW)) {
    return rg_fail(RG_EARG, "sketched_conv2d: it has no groups, and channels come second");
  }
  return RG_OK;
}

static rg_value convolved(rg_formula *f, rg_value x, rg_value w, rg_value b,
                          const rg_conv2d_options *options)
{
  RG_F_STEP(rg_conv2d(x, w, b, options, &out));
}

rg_status rg_sketched_conv2d(const rg_tensor *x, const rg_tensor *s, const rg_tensor *u,
                             const rg_tensor *b, int64_t terms, const rg_conv2d_options *options,
                             rg_tensor **out)
{
  rg_formula f = { .what = "sketched_conv2d" };

  if (out == NULL) {
    return rg_fail(RG_EARG, "sketched_conv2d: out is NULL");
  }
  RG_TRY(check(x, s, u, terms, options));
  rg_value z = convolved(&f, x, s, NULL, options);
  rg_value turned = rg_f_times(&f, rg_f_swapped(&f, u, 0, 1), 0.5 / (double)terms);
  int64_t shape[] = { u->_shape[1], u->_shape[0], 1, 1 };
  rg_value w = rg_f_shaped(&f, turned, shape, 4);

  if (z != NULL) {
    w = rg_f_cast(&f, w, z->_dtype);
  }
  return rg_f_give(&f, convolved(&f, z, w, b, NULL), out);
}
