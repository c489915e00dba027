/* SPDX-License-Identifier: MIT */
/*
** Calls of conv2d and its gradients, given to cuDNN.
**
** cuDNN wants its tensors in one type and without gaps.  What comes in another (f32 weights of a
** convolution in bf16) or lies otherwise (kernels, where the images have their channels last) is
** copied into the workspace first.  f16 is not as on the CPU here: factors wider than f16 are
** rounded to it, as autocast does it for bf16; sums are in f32 everywhere.
**
** Where cuDNN has no engine that adds a bias and applies an activation (9.19: to images with
** channels first), or the activation is not left to it (rg_dnn_fuses), it does the convolution, and
** the kernel in image.cu the rest, so that halves are rounded twice.
*/
#include <string.h>

#include "gpu/dnn/run.h"
#include "gpu/kernels.cuh"

extern "C" {
#include "op/conv.h"
#include "op/reduce.h"
}

#if RG_HAS_DNN

/* -- Layouts ------------------------------------------------------------------------------ */

static bool type_of(int32_t dtype, int32_t *type)
{
  *type = dtype == RG_F32   ? CUDNN_DATA_FLOAT
          : dtype == RG_F16 ? CUDNN_DATA_HALF
                            : CUDNN_DATA_BFLOAT16;
  return dtype == RG_F32 || dtype == RG_F16 || dtype == RG_BF16;
}

/* Steps without gaps, the channels last or not, of axes batch, channels, rows, columns. */
static void pack_steps(const int64_t shape[4], int32_t order, int64_t step[4])
{
  static const int axes[2][4] = { { 3, 2, 1, 0 }, { 1, 3, 2, 0 } }; /* from the innermost */
  int64_t next = 1;

  for (int axis : axes[order == RG_NHWC]) {
    step[axis] = next;
    next *= shape[axis];
  }
}

/* A tensor of images, or of kernels (whose axes are those of RG_NCHW), for one call. */
struct side {
  const rg_tensor *x;
  int32_t layout; /* of its axes */
  rg_dnn_layout at;
  rg_tensor copy; /* as it is wanted, where it is not so */
  bool copied;
};

/* Does x lie without gaps in that order?  Axes of size 1 lie in any. */
static bool lies(const side &s, int32_t order)
{
  int64_t step[4];

  pack_steps(s.at.shape, order, step);
  for (int i = 0; i < 4; i++) {
    if (s.at.shape[i] != 1 && s.at.step[i] != step[i]) {
      return false;
    }
  }
  return true;
}

static int64_t align_of(const void *data)
{
  uintptr_t at = (uintptr_t)data;

  return at % 16 == 0 ? 16 : (int64_t)(at & (0 - at));
}

static side side_of(const rg_tensor *x, int32_t layout)
{
  const int32_t axis[4] = { 0, rg_channels_axis(layout), rg_rows_axis(layout),
                            rg_rows_axis(layout) + 1 };
  side s = {};

  s.x = x;
  s.layout = layout;
  for (int i = 0; i < 4; i++) {
    s.at.shape[i] = x->_shape[axis[i]];
    s.at.step[i] = x->_stride[axis[i]];
  }
  s.at.align = align_of(x->_data);
  return s;
}

/* Settle where a tensor lies: as it is, where type and order are right, or in a copy of so many
** bytes, which are the result. */
static int64_t settle(side *s, int32_t dtype, int32_t order)
{
  const int32_t axis[4] = { 0, rg_channels_axis(s->layout), rg_rows_axis(s->layout),
                            rg_rows_axis(s->layout) + 1 };

  (void)type_of(dtype, &s->at.type);
  s->copied = s->x->_dtype != dtype || !lies(*s, order);
  pack_steps(s->at.shape, order, s->at.step);
  if (!s->copied) {
    return 0;
  }
  s->at.align = 16;
  s->copy = *s->x;
  s->copy._dtype = dtype;
  s->copy._flags = s->layout == order ? RG_TENSOR_CONTIGUOUS : 0;
  for (int i = 0; i < 4; i++) {
    s->copy._stride[axis[i]] = s->at.step[i];
  }
  return (s->x->_count * (dtype == RG_F32 ? 4 : 2) + 255) / 256 * 256;
}

static void *place(side *s, char **room)
{
  if (!s->copied) {
    return s->x->_data;
  }
  s->copy._data = *room;
  *room += (s->copy._count * (s->copy._dtype == RG_F32 ? 4 : 2) + 255) / 256 * 256;
  return s->copy._data;
}

/* Copy one tensor to another, whatever their types and steps. */
static bool copy(const rg_call *call, const rg_tensor *from, rg_tensor *to, rg_frame *frame)
{
  rg_call c = *call;
  rg_frame with = *frame; /* the way a copy took is not the convolution's */

  c.in = &from;
  c.n_in = 1;
  return rg_gpu_copy(&c, &to, &with) == RG_OK;
}

static bool bring(const rg_call *call, side *s, rg_frame *frame)
{
  return !s->copied || copy(call, s->x, &s->copy, frame);
}

/* -- Jobs --------------------------------------------------------------------------------- */

/* A convolution: sides x, w and y, whichever is the result; nothing of it is empty. */
struct work {
  side x, w, y;
  int64_t bytes; /* of copies */
  rg_dnn_conv conv;
};

static bool work_of(const rg_call *call, int32_t kind, const rg_tensor *x, const rg_tensor *w,
                    const rg_tensor *y, int32_t dtype, work *v)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_tensor *images = kind == RG_DNN_BACK_DATA ? y : x;
  rg_dnn_conv *c = &v->conv;
  int32_t type;

  if (rg_dnn_wanted() == NULL || !type_of(dtype, &type) || x->_count == 0 || w->_count == 0 ||
      y->_count == 0 || x->_count > INT32_MAX ||
      y->_count > INT32_MAX) { /* engines count in 32 bits */
    return false;
  }
  memset(v, 0, sizeof(*v)); /* jobs are compared byte by byte */
  v->x = side_of(x, o->layout);
  v->w = side_of(w, RG_NCHW);
  v->y = side_of(y, o->layout);
  const side &first = images == x ? v->x : v->y;
  int32_t other = o->layout == RG_NHWC ? RG_NCHW : RG_NHWC;
  int32_t order = !lies(first, o->layout) && lies(first, other) ? other : o->layout;

  v->bytes = settle(&v->x, dtype, order);
  v->bytes += settle(&v->w, dtype, order);
  v->bytes += settle(&v->y, dtype, order);
  c->kind = kind;
  c->x = v->x.at;
  c->w = v->w.at;
  c->y = v->y.at;
  for (int i = 0; i < 2; i++) {
    c->o.stride[i] = o->stride[i];
    c->o.dilation[i] = o->dilation[i];
    c->o.pad_low[i] = o->pad_low[i];
    c->o.pad_high[i] = o->pad_high[i];
  }
  return true;
}

static rg_dnn_job job_of(const work *v, int64_t room, const rg_frame *frame)
{
  const rg_device_modes *modes = rg_gpu->modes();
  bool single = v->conv.x.type == CUDNN_DATA_FLOAT;
  bool loose = single && modes->tf32 != 0;

  return rg_dnn_job{ rg_dnn_conv_build,
                     &v->conv,
                     sizeof(v->conv),
                     { modes->deterministic != 0, !loose, single && !loose },
                     room,
                     v->conv.bias != 0 || v->conv.act != RG_ACT_NONE ? 3 : RG_DNN_CHOICES,
                     frame->memo != NULL };
}

/* Run what is ready: copies, cuDNN, and the result's copy back. */
static bool run(const rg_call *call, work *v, rg_dnn_exec *exec, const rg_tensor *b,
                rg_frame *frame)
{
  char *room = exec->room;
  side *result = v->conv.kind == RG_DNN_FORWARD     ? &v->y
                 : v->conv.kind == RG_DNN_BACK_DATA ? &v->x
                                                    : &v->w;
  side *const sides[3] = { &v->x, &v->w, &v->y };
  const rg_dnn_bind bind[4] = { { RG_DNN_X, place(&v->x, &room) },
                                { RG_DNN_W, place(&v->w, &room) },
                                { RG_DNN_Y, place(&v->y, &room) },
                                { RG_DNN_B, b != NULL ? b->_data : NULL } };

  for (side *s : sides) {
    if (s != result && !bring(call, s, frame)) {
      return false;
    }
  }
  if (!rg_dnn_run(exec, bind, b != NULL ? 4 : 3) ||
      (result->copied && !copy(call, &result->copy, (rg_tensor *)result->x, frame))) {
    return false;
  }
  frame->path = "cudnn";
  return true;
}

/* The bias as cuDNN adds it: [1 x channels x 1 x 1], of the type of y or in f32. */
static bool take_bias(const rg_tensor *b, work *v)
{
  rg_dnn_layout *at = &v->conv.b;

  v->conv.bias = b != NULL;
  if (b == NULL) {
    return true;
  }
  *at = rg_dnn_dense(CUDNN_DATA_FLOAT, 1, b->_shape[0], 1, 1);
  pack_steps(at->shape, v->conv.y.step[1] == 1 ? RG_NHWC : RG_NCHW, at->step);
  at->align = align_of(b->_data);
  return type_of(b->_dtype, &at->type) && (b->_stride[0] == 1 || b->_shape[0] == 1) &&
         (at->type == v->conv.y.type || b->_dtype == RG_F32);
}

int32_t rg_dnn_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_tensor *b = call->n_in > 2 ? call->in[2] : NULL;
  rg_dnn_exec exec;
  work v;

  if (!work_of(call, RG_DNN_FORWARD, call->in[0], call->in[1], out[0], out[0]->_dtype, &v)) {
    return RG_DNN_NOT;
  }
  v.conv.act = o->act;
  if ((b != NULL || o->act != RG_ACT_NONE) && rg_dnn_fuses(o->act) && take_bias(b, &v) &&
      rg_dnn_ready(call->device, job_of(&v, v.bytes, frame), &exec)) {
    return run(call, &v, &exec, b, frame) ? RG_DNN_DONE : RG_DNN_NOT;
  }
  v.conv.act = RG_ACT_NONE;
  v.conv.bias = 0;
  memset(&v.conv.b, 0, sizeof(v.conv.b));
  if (!rg_dnn_ready(call->device, job_of(&v, v.bytes, frame), &exec) ||
      !run(call, &v, &exec, NULL, frame)) {
    return RG_DNN_NOT;
  }
  return b != NULL || o->act != RG_ACT_NONE ? RG_DNN_SUM : RG_DNN_DONE;
}

int32_t rg_dnn_conv2d_back_data(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_dnn_exec exec;
  work v;

  return work_of(call, RG_DNN_BACK_DATA, out[0], call->in[1], call->in[0], out[0]->_dtype, &v) &&
                 rg_dnn_ready(call->device, job_of(&v, v.bytes, frame), &exec) &&
                 run(call, &v, &exec, NULL, frame)
             ? RG_DNN_DONE
             : RG_DNN_NOT;
}

/* db is a sum of dy over all but the channels, which ridge's own reduction makes in a few passes;
** it wants room for the sums of parts, of which it makes no more than this. */
enum { PARTS_BYTES = 1024 * RG_BLOCK * 8 };

int32_t rg_dnn_conv2d_back_weight(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_dnn_exec exec;
  work v;

  if (!work_of(call, RG_DNN_BACK_WEIGHT, call->in[0], out[0], call->in[1], out[0]->_dtype, &v) ||
      !rg_dnn_ready(call->device, job_of(&v, v.bytes + PARTS_BYTES, frame), &exec) ||
      !run(call, &v, &exec, NULL, frame)) {
    return RG_DNN_NOT;
  }
  const rg_tensor *dy = v.y.copied ? &v.y.copy : v.y.x;
  rg_reduce_args args = {}; /* by name: the order of its fields is the record's business */
  rg_call sum = *call;
  rg_frame with = *frame;

  args.axes = 15u & ~(1u << rg_channels_axis(v.y.layout));
  sum.in = &dy;
  sum.n_in = 1;
  sum.args = &args;
  with.scratch = exec.room + v.bytes;
  return rg_gpu_sum(&sum, &out[1], &with) == RG_OK ? RG_DNN_DONE : RG_DNN_NOT;
}

#else

int32_t rg_dnn_conv2d(const rg_call *, rg_tensor *const *, rg_frame *)
{
  return RG_DNN_NOT;
}
int32_t rg_dnn_conv2d_back_data(const rg_call *, rg_tensor *const *, rg_frame *)
{
  return RG_DNN_NOT;
}
int32_t rg_dnn_conv2d_back_weight(const rg_call *, rg_tensor *const *, rg_frame *)
{
  return RG_DNN_NOT;
}

#endif
