/* SPDX-License-Identifier: MIT */
/*
** Checks that the records of products share.  Each message names the operation, what was given and
** what would have fitted.
*/
#include <stdio.h>

#include "op/product.h"

rg_status rg_product_dtype(const rg_call *call, int32_t *out)
{
  int32_t lower = rg_autocast_for(call);
  int32_t dtype = -1;

  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] == NULL || rg_input_of(call, i)->role == RG_ROLE_BITS) {
      continue;
    }
    if (call->in[i]->_dtype == RG_BOOL) {
      return rg_fail(RG_EDTYPE, "%s: input %d is bool, which has no product", call->op->name,
                     i + 1);
    }
    dtype = dtype < 0 ? call->in[i]->_dtype : rg_promote(dtype, call->in[i]->_dtype);
  }
  *out = lower >= 0 ? lower : dtype;
  return RG_OK;
}

rg_status rg_product_matrix(const rg_call *call, int32_t i, int64_t rows, int64_t cols,
                            const char *what)
{
  const rg_tensor *x = call->in[i];
  char text[128];

  if (x->_ndim != 2 || (rows >= 0 && x->_shape[0] != rows) || (cols >= 0 && x->_shape[1] != cols)) {
    int64_t want[2] = { rows, cols };
    char wanted[2][24] = { "any", "any" };

    for (int j = 0; j < 2; j++) {
      if (want[j] >= 0) {
        (void)snprintf(wanted[j], sizeof(wanted[j]), "%lld", (long long)want[j]);
      }
    }
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted [%s,%s]", call->op->name, what,
                   rg_tensor_text(x, text, sizeof(text)), wanted[0], wanted[1]);
  }
  return RG_OK;
}

rg_status rg_product_bias(const rg_call *call, int32_t i, int64_t n)
{
  const rg_tensor *b = i < call->n_in ? call->in[i] : NULL;
  char text[128];

  if (b != NULL && (b->_ndim != 1 || b->_shape[0] != n)) {
    return rg_fail(RG_ESHAPE, "%s: the bias is %s, wanted [%lld]", call->op->name,
                   rg_tensor_text(b, text, sizeof(text)), (long long)n);
  }
  return RG_OK;
}

rg_status rg_product_rows(const rg_call *call, int64_t n_in, int64_t n_out, int32_t dtype,
                          rg_meta *out)
{
  const rg_tensor *x = call->in[0];
  char text[128];

  if (x->_ndim < 1 || x->_shape[x->_ndim - 1] != n_in) {
    return rg_fail(RG_ESHAPE, "%s: x is %s, wanted a last axis of %lld", call->op->name,
                   rg_tensor_text(x, text, sizeof(text)), (long long)n_in);
  }
  *out = rg_meta_of(x);
  out->dtype = dtype;
  out->shape[x->_ndim - 1] = n_out;
  return RG_OK;
}

rg_status rg_product_act(const rg_call *call, int32_t act)
{
  if (act < 0 || act >= RG_ACT_COUNT) {
    return rg_fail(RG_EARG, "%s: there is no activation %d", call->op->name, act);
  }
  return RG_OK;
}
