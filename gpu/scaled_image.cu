/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes with scales, as the formula says them: one thread an element, sums of whole
** numbers, any layout and any strides.
*/
#include "gpu/image.cuh"
#include "gpu/kernels.cuh"

typedef rg_image<int64_t> image_side;
typedef rg_image_spot<int64_t> image_spot;

struct scaled_work {
  image_side x, w, y;
  int64_t in_group, out_group; /* channels */
  int64_t stride[2], dilation[2], pad[2];
  const float *x_scale, *w_scale, *y_scale;
  int64_t w_scale_step; /* 0: one for all channels */
  const void *bias;     /* or NULL */
  int64_t bias_step;
  int32_t bias_dtype, act, x_zero, y_zero;
};

/* Row p of the kernel at row i of the result: which row of x; -1: outside.  Columns are axis 1. */
__device__ static inline int64_t row_of(const scaled_work &v, int axis, int64_t i, int64_t p)
{
  int64_t at = i * v.stride[axis] + p * v.dilation[axis] - v.pad[axis];

  return at >= 0 && at < v.x.size[2 + axis] ? at : -1;
}

__device__ static inline int32_t byte_at(const image_side &s, const image_spot &p)
{
  int64_t at = rg_image_at(s, p);

  return s.dtype == RG_U8 ? ((const uint8_t *)s.data)[at] : ((const int8_t *)s.data)[at];
}

/* What is around an image stands for 0, which adds nothing. */
__device__ static int32_t sum_of(const scaled_work &v, const image_spot &s)
{
  int64_t first = s.c / v.out_group * v.in_group;
  int32_t sum = 0;

  for (int64_t p = 0; p < v.w.size[2]; p++) {
    int64_t row = row_of(v, 0, s.row, p);

    for (int64_t q = 0; row >= 0 && q < v.w.size[3]; q++) {
      int64_t column = row_of(v, 1, s.column, q);

      for (int64_t c = 0; column >= 0 && c < v.in_group; c++) {
        sum += (byte_at(v.x, image_spot{ s.n, first + c, row, column }) - v.x_zero) *
               byte_at(v.w, image_spot{ s.c, c, p, q });
      }
    }
  }
  return sum;
}

__device__ static inline float nearest_byte(const scaled_work &v, float y, float least, float most)
{
  float scaled = y * (1.0f / *v.y_scale);
  float whole = scaled == scaled ? rintf(scaled) : 0.0f;

  return fminf(fmaxf(whole + (float)v.y_zero, least), most);
}

static __global__ void k_scaled_conv2d(scaled_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = rg_image_spot_of(v.y, k);
    int64_t at = rg_image_at(v.y, s);
    float y = (float)sum_of(v, s) * *v.x_scale * v.w_scale[s.c * v.w_scale_step];

    if (v.bias != nullptr) {
      y += rg_load<float>(v.bias, v.bias_dtype, s.c * v.bias_step);
    }
    y = rg_activated(v.act, y);
    if (v.y.dtype == RG_I8) {
      ((int8_t *)v.y.data)[at] = (int8_t)nearest_byte(v, y, -128.0f, 127.0f);
    } else if (v.y.dtype == RG_U8) {
      ((uint8_t *)v.y.data)[at] = (uint8_t)nearest_byte(v, y, 0.0f, 255.0f);
    } else {
      rg_store(v.y.data, v.y.dtype, at, y);
    }
  }
}

rg_status rg_gpu_scaled_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_conv2d_args *args = (const rg_scaled_conv2d_args *)call->args;
  const rg_conv2d_options *o = &args->conv.o;
  const rg_tensor *bias = call->n_in > 4 ? call->in[4] : NULL;
  const rg_tensor *y_scale = call->n_in > 5 ? call->in[5] : NULL;
  scaled_work v = {};

  frame->path = "direct";
  if (bias != NULL && bias->_dtype == RG_I32) {
    return rg_gpu->fail(RG_ENOSUP,
                        "%s: a bias of i32 has no kernel on devices yet; move the tensors to the "
                        "CPU",
                        call->op->name);
  }
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  v.x = rg_image_of<int64_t>(call->in[0], o->layout);
  v.w = rg_image_of<int64_t>(call->in[1], RG_NCHW);
  v.y = rg_image_of<int64_t>(out[0], o->layout);
  v.in_group = v.x.size[1] / o->groups;
  v.out_group = v.y.size[1] / o->groups;
  for (int i = 0; i < 2; i++) {
    v.stride[i] = o->stride[i];
    v.dilation[i] = o->dilation[i];
    v.pad[i] = o->pad_low[i];
  }
  v.x_scale = (const float *)call->in[2]->_data;
  v.w_scale = (const float *)call->in[3]->_data;
  v.w_scale_step = call->in[3]->_count == 1 ? 0 : call->in[3]->_stride[0];
  v.y_scale = y_scale != NULL ? (const float *)y_scale->_data : NULL;
  if (bias != NULL) {
    v.bias = bias->_data;
    v.bias_step = bias->_stride[0];
    v.bias_dtype = bias->_dtype;
  }
  v.act = o->act;
  v.x_zero = (int32_t)args->more.x_zero;
  v.y_zero = (int32_t)args->more.y_zero;
  return rg_gpu_status(call->op->name,
                       rg_launch(k_scaled_conv2d,
                                 rg_over(out[0]->_count, rg_gpu_stream(call->device)), v,
                                 out[0]->_count));
}
