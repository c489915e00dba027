/* SPDX-License-Identifier: MIT */
/*
** Calls of attention and its gradients, given to cuDNN: halves without a mask, whose rows lie as
** its engines load them, 16 bytes at a time.  Everything else is ridge's own kernels'.
**
** What is left to them on purpose: gradients by cuDNN before 9.16 where the keys are no multiple of
** 128 (they are wrong, says cudnn-frontend), more than 256 columns, gradients of more than 128
** columns but on Hopper, and deterministic gradients on Blackwell, where an engine has to be named.
*/
#include <string.h>

#include "gpu/dnn/run.h"
#include "gpu/kernels.cuh"

extern "C" {
#include "op/attention.h"
}

#if RG_HAS_DNN

enum { ANY_KEYS = 91600, KEYS = 128, MOST_COLUMNS = 256, MOST_BACK = 128 };

/* [... x rows x columns] as batch, heads, rows, columns; false where cuDNN cannot load it. */
static bool layout_of(const rg_tensor *x, rg_dnn_layout *l)
{
  int32_t n = x->_ndim;

  if (x->_count > INT32_MAX) { /* engines count in 32 bits */
    return false;
  }
  l->shape[0] = l->shape[1] = 1;
  l->shape[2] = x->_shape[n - 2];
  l->shape[3] = x->_shape[n - 1];
  l->step[2] = x->_stride[n - 2];
  l->step[3] = x->_stride[n - 1];
  if (n > 3) {
    l->shape[1] = x->_shape[n - 3];
    l->step[1] = x->_stride[n - 3];
  }
  for (int32_t i = n > 3 ? n - 4 : n - 3; i >= 0; i--) { /* all other axes are one */
    if (x->_shape[i] != 1) {
      if (l->shape[0] != 1 && x->_stride[i] != l->step[0] * l->shape[0]) {
        return false;
      }
      l->step[0] = l->shape[0] == 1 ? x->_stride[i] : l->step[0];
      l->shape[0] *= x->_shape[i];
    }
  }
  for (int i = 2; i >= 0; i--) { /* axes of size 1 lie anywhere: as if there were no gaps */
    if (l->shape[i] == 1) {
      l->step[i] = l->step[i + 1] * l->shape[i + 1];
    }
  }
  l->align = 16;
  l->type = x->_dtype == RG_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  if ((uintptr_t)x->_data % 16 != 0 || l->shape[3] % 8 != 0 || l->step[3] != 1) {
    return false;
  }
  for (int i = 0; i < 3; i++) {
    if (l->step[i] <= 0 || l->step[i] % 8 != 0) {
      return false;
    }
  }
  return true;
}

/* What forward and back share. */
static bool begin(const rg_call *call, int32_t dtype, rg_dnn_sdpa *a)
{
  const rg_attention_args *args = (const rg_attention_args *)call->args;
  const rg_dnn_library *dnn = rg_dnn_wanted();

  memset(a, 0, sizeof(*a)); /* jobs are compared byte by byte */
  if (dnn == NULL || (dtype != RG_F16 && dtype != RG_BF16) || call->in[RG_ATT_MASK] != NULL ||
      call->in[RG_ATT_Q]->_count == 0 || call->in[RG_ATT_V]->_count == 0 ||
      !layout_of(call->in[RG_ATT_Q], &a->q) || !layout_of(call->in[RG_ATT_K], &a->k) ||
      !layout_of(call->in[RG_ATT_V], &a->v)) {
    return false;
  }
  a->scale = (float)args->scale;
  a->causal = args->causal != 0;
  a->lse = rg_dnn_dense(CUDNN_DATA_FLOAT, a->q.shape[0], a->q.shape[1], a->q.shape[2], 1);
  return a->q.shape[3] <= MOST_COLUMNS && a->v.shape[3] <= MOST_COLUMNS;
}

static rg_dnn_job job_of(void (*build)(rg_dnn_graph *, const void *), const rg_dnn_sdpa *a,
                         const rg_frame *frame)
{
  return rg_dnn_job{
    build, a, sizeof(*a),         { rg_gpu->modes()->deterministic != 0, true, false },
    0,     2, frame->memo != NULL
  };
}

int32_t rg_dnn_attention(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *lse = call->n_out > 1 ? out[1] : NULL;
  rg_dnn_exec exec;
  rg_dnn_sdpa a;

  if (!begin(call, out[0]->_dtype, &a) || !layout_of(out[0], &a.o) ||
      (lse != NULL && !rg_is_contiguous(lse))) {
    return RG_DNN_NOT;
  }
  if (lse == NULL) {
    memset(&a.lse, 0, sizeof(a.lse));
  }
  const rg_dnn_bind bind[5] = { { RG_DNN_Q, call->in[RG_ATT_Q]->_data },
                                { RG_DNN_K, call->in[RG_ATT_K]->_data },
                                { RG_DNN_V, call->in[RG_ATT_V]->_data },
                                { RG_DNN_O, out[0]->_data },
                                { RG_DNN_LSE, lse != NULL ? lse->_data : NULL } };

  if (!rg_dnn_ready(call->device, job_of(rg_dnn_sdpa_build, &a, frame), &exec) ||
      !rg_dnn_run(&exec, bind, lse != NULL ? 5 : 4)) {
    return RG_DNN_NOT;
  }
  frame->path = "cudnn";
  return RG_DNN_DONE;
}

int32_t rg_dnn_attention_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *lse = call->in[RG_ATT_LSE];
  rg_dnn_exec exec;
  rg_dnn_sdpa a;

  if (!begin(call, out[0]->_dtype, &a) || !rg_is_contiguous(lse) ||
      !layout_of(call->in[RG_ATT_Y], &a.o) || !layout_of(call->in[RG_ATT_DY], &a.d_o) ||
      !layout_of(out[0], &a.dq) || !layout_of(out[1], &a.dk) || !layout_of(out[2], &a.dv)) {
    return RG_DNN_NOT;
  }
  int32_t sm = rg_gpu_capability(call->device);
  bool wide = a.q.shape[3] > MOST_BACK || a.v.shape[3] > MOST_BACK;

  a.deterministic = rg_gpu->modes()->deterministic != 0;
  if (rg_dnn_wanted()->version < ANY_KEYS && a.k.shape[2] % KEYS != 0) {
    return RG_DNN_NOT;
  }
  if ((wide && sm / 10 != 9) || (a.deterministic != 0 && sm >= 100)) {
    return RG_DNN_NOT;
  }
  const rg_dnn_bind bind[9] = { { RG_DNN_Q, call->in[RG_ATT_Q]->_data },
                                { RG_DNN_K, call->in[RG_ATT_K]->_data },
                                { RG_DNN_V, call->in[RG_ATT_V]->_data },
                                { RG_DNN_O, call->in[RG_ATT_Y]->_data },
                                { RG_DNN_LSE, lse->_data },
                                { RG_DNN_DO, call->in[RG_ATT_DY]->_data },
                                { RG_DNN_DQ, out[0]->_data },
                                { RG_DNN_DK, out[1]->_data },
                                { RG_DNN_DV, out[2]->_data } };

  if (!rg_dnn_ready(call->device, job_of(rg_dnn_sdpa_back_build, &a, frame), &exec) ||
      !rg_dnn_run(&exec, bind, 9)) {
    return RG_DNN_NOT;
  }
  frame->path = "cudnn";
  return RG_DNN_DONE;
}

#else

int32_t rg_dnn_attention(const rg_call *, rg_tensor *const *, rg_frame *)
{
  return RG_DNN_NOT;
}
int32_t rg_dnn_attention_back(const rg_call *, rg_tensor *const *, rg_frame *)
{
  return RG_DNN_NOT;
}

#endif
