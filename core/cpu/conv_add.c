/* SPDX-License-Identifier: MIT */
/*
** conv2d_add on the CPU: a convolution that is added to what lies in the result, in the epilogue of
** the way that is chosen.  In a plan r often ends there and lies in the memory of the result
** already (graph/emit.c); else it is copied there first.
**
** It is not measured: a measurement would add again and again.  The way is that of the conv2d of
** these sizes.
*/
#include <string.h>

#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/product.h"
#include "op/list.h"
#include "tensor/dtype.h"

extern const rg_op rg_op_conv2d;

/* The convolution alone. */
static rg_call conv_of(const rg_call *call, const rg_tensor **in)
{
  rg_call conv = *call;

  in[0] = call->in[0];
  in[1] = call->in[1];
  in[2] = call->n_in > 3 ? call->in[3] : NULL;
  conv.op = &rg_op_conv2d;
  conv.in = in;
  conv.n_in = 3;
  return conv;
}

/* -- Beside the result ------------------------------------------------------------------------- */

/* A tensor like x, side by side. */
static rg_status make_like(const rg_tensor *x, rg_tensor *out, rg_block *block)
{
  int64_t stride = 1;

  *out = rg_tensor_struct(x);
  out->_flags = RG_TENSOR_CONTIGUOUS;
  for (int32_t i = x->_ndim - 1; i >= 0; i--) {
    out->_stride[i] = stride;
    stride *= x->_shape[i];
  }
  RG_TRY(rg_block_alloc(RG_CPU, rg_max_i64(64, x->_count * rg_dtype_bytes(x->_dtype)), block));
  out->_data = block->data;
  return RG_OK;
}

/* y = act(y + r), both side by side. */
static void add(const rg_tensor *y, const rg_tensor *r, int32_t act)
{
  enum { SOME = 512 };
  float a[SOME], b[SOME];

  if (y->_dtype == RG_F64) {
    double *to = y->_data;
    const double *from = r->_data;

    for (int64_t i = 0; i < y->_count; i++) {
      to[i] += from[i];
    }
    rg_activate(act, RG_LANE_F64, to, y->_count);
    return;
  }
  const rg_dtype *type = &rg_dtypes[y->_dtype];

  for (int64_t i = 0; i < y->_count; i += SOME) {
    const int64_t n = rg_min_i64(SOME, y->_count - i);

    rg_run_f32(y->_data, y->_dtype, i, 1, n, a);
    rg_run_f32(r->_data, r->_dtype, i, 1, n, b);
    for (int64_t j = 0; j < n; j++) {
      a[j] += b[j];
    }
    rg_activate(act, RG_LANE_F32, a, n);
    type->set_f32((char *)y->_data + i * type->bytes, a, n);
  }
}

static rg_status apart(const rg_call *call, const rg_tensor *r, rg_tensor *out, rg_tensor *made,
                       rg_tensor *added)
{
  rg_conv2d_args args = *(const rg_conv2d_args *)call->args;
  const int32_t act = args.o.act;
  rg_frame frame = { .path = "" };
  rg_call plain = *call;

  args.o.act = RG_ACT_NONE;
  plain.args = &args;
  RG_TRY(rg_conv_go(&plain, &made, &frame, false));
  RG_TRY(rg_cpu_convert(added, r));
  add(made, added, act);
  return rg_cpu_convert(out, made);
}

rg_status rg_conv_apart(const rg_call *call, const rg_tensor *r, rg_tensor *out)
{
  rg_tensor side[2];
  rg_block block[2] = { { 0 }, { 0 } };
  rg_status status = make_like(out, &side[0], &block[0]);

  if (status == RG_OK) {
    status = make_like(out, &side[1], &block[1]);
  }
  if (status == RG_OK) {
    status = apart(call, r, out, &side[0], &side[1]);
  }
  for (int i = 1; i >= 0; i--) {
    if (block[i].data != NULL) {
      rg_block_free(&block[i]);
    }
  }
  return status;
}

/* -- In the epilogue --------------------------------------------------------------------------- */

rg_status rg_cpu_conv2d_add(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *in[3];
  const rg_call conv = conv_of(call, in);
  const rg_tensor *r = call->in[2];
  rg_tensor *y = out[0];

  if (!rg_conv_dnnl_reads(y->_dtype) || !rg_is_contiguous(y) || in[0]->_count == 0 ||
      in[1]->_count == 0 || y->_count == 0) {
    frame->path = "apart";
    return rg_conv_apart(&conv, r, y);
  }
  if (!rg_tensor_same_view(y, r)) {
    RG_TRY(rg_cpu_convert(y, r));
  }
  return rg_conv_go(&conv, out, frame, true);
}

/* The convolution's images; the copies of what goes apart come with the first run. */
rg_status rg_conv_add_foresee(const rg_call *call, rg_tensor *const *out)
{
  const rg_tensor *in[3];
  const rg_call conv = conv_of(call, in);

  if (!rg_conv_dnnl_reads(out[0]->_dtype) || !rg_is_contiguous(out[0])) {
    return RG_OK;
  }
  return rg_conv_foresee(&conv, out);
}
