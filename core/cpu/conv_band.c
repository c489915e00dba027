/* SPDX-License-Identifier: MIT */
/*
** Convolutions cut into pieces: images, groups, channels, and bands, which are some rows and
** columns of the result with what they read.
*/
#include "cpu/conv.h"
#include "cpu/cpu.h"

/* -- Bands -------------------------------------------------------------------------------- */

/* Some rows, or columns, of a convolution's result, and what they read: first place and number. */
typedef struct band {
  int64_t x[2];
  int64_t w[2];
  int64_t y[2];
  int64_t pad_low; /* of the convolution that makes the band alone */
  int64_t pad_high;
} band;

static int64_t round_up_div(int64_t a, int64_t b)
{
  return a <= 0 ? 0 : (a + b - 1) / b;
}

/* Places first .. first + n - 1 of x that meet the image, and the padding around them. */
static bool crop(band *b, int64_t first, int64_t end, int64_t size)
{
  b->x[0] = rg_max_i64(first, 0);
  b->x[1] = rg_min_i64(end, size) - b->x[0];
  b->pad_low = rg_max_i64(-first, 0);
  b->pad_high = rg_max_i64(end - size, 0);
  return b->x[1] > 0;
}

/*
** What makes places first .. end - 1 along an axis of the result of conv2d (y), conv2d_back_data
** (x) or conv2d_back_weight (w).
**
** op       RG_OP_CONV2D ...
** axis     0: rows, 1: columns
** false    they read nothing but padding, which no library convolves
*/
static bool band_at(int32_t op, const rg_conv2d_sizes *s, const rg_conv2d_options *o, int axis,
                    int64_t first, int64_t end, band *b)
{
  const int64_t stride = o->stride[axis], dilation = o->dilation[axis], pad = o->pad_low[axis];
  const int64_t reach = (s->w[axis] - 1) * dilation; /* from a window's first place to its last */
  int64_t last;

  *b = (band){ .x = { 0, s->x[axis] }, .w = { 0, s->w[axis] }, .y = { 0, s->y[axis] } };
  switch (op) {
  case RG_OP_CONV2D:
    b->y[0] = first;
    b->y[1] = end - first;
    return crop(b, first * stride - pad, (end - 1) * stride - pad + reach + 1, s->x[axis]);
  case RG_OP_CONV2D_BACK_WEIGHT:
    b->w[0] = first;
    b->w[1] = end - first;
    return crop(b, first * dilation - pad,
                (s->y[axis] - 1) * stride + (end - 1) * dilation - pad + 1, s->x[axis]);
  default:
    /* the windows that reach the band: at least one, and none that begins behind it */
    b->x[0] = first;
    b->x[1] = end - first;
    b->y[0] = rg_min_i64(round_up_div(first + pad - reach, stride), (first + pad) / stride);
    b->y[0] = rg_min_i64(b->y[0], s->y[axis] - 1);
    last = rg_min_i64((end - 1 + pad) / stride, s->y[axis] - 1);
    b->y[1] = rg_max_i64(last, b->y[0]) + 1 - b->y[0];
    b->pad_low = pad - b->y[0] * stride + first;
    /* below 0: places behind the last window, fewer than a stride */
    b->pad_high = rg_max_i64(0, (b->y[1] - 1) * stride + reach + 1 - b->pad_low - b->x[1]);
    return true;
  }
}

/* -- Pieces -------------------------------------------------------------------------------- */

static int64_t up_to_16(int64_t n)
{
  return rg_round_up(n, 16); /* channels in a block of oneDNN's */
}

/*
** Operations of a call, counted so often as oneDNN is slow at them: with few channels in a group,
** or in all, it was seen at 0.2 to 1.5 GFlop/s in place of 10 to 60 on one core.
*/
static double burden(const rg_call *call, const rg_conv2d_options *o, rg_tensor *const *out)
{
  const bool weight = call->op->id == RG_OP_CONV2D_BACK_WEIGHT;
  const int64_t *shape = weight ? out[0]->_shape : call->in[1]->_shape;
  const int64_t least = rg_min_i64(shape[0] / o->groups, shape[1]);

  return call->op->cost(call).flops * (least < 4 ? 256 : least < 16 ? 32 : 1);
}

/* Rows and columns of what a call makes. */
static const int64_t *places(int32_t op, const rg_conv2d_sizes *s)
{
  return op == RG_OP_CONV2D ? s->y : op == RG_OP_CONV2D_BACK_DATA ? s->x : s->w;
}

/* How many bands along an axis, `wanted` at most: none may read padding alone. */
static int64_t bands_along(const rg_call *call, int axis, double wanted)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int64_t size = places(call->op->id, &s)[axis];
  int64_t n = wanted < (double)size ? (int64_t)wanted : size;
  band b;

  for (int64_t k = 0; k < n;) {
    if (band_at(call->op->id, &s, o, axis, size * k / n, size * (k + 1) / n, &b)) {
      k++;
    } else {
      n /= 2;
      k = 0;
    }
  }
  return rg_max_i64(n, 1);
}

/* Pieces of so many operations into bands. */
static void cut_bands(rg_conv_cut *c, const rg_call *call, double flops, double piece_flops)
{
  c->bands[0] = bands_along(call, 0, flops / piece_flops + 1);
  c->bands[1] = bands_along(call, 1, flops / (double)c->bands[0] / piece_flops + 1);
}

rg_conv_cut rg_conv_cut_of(const rg_call *call, rg_tensor *const *out)
{
  const double long_one = 1e11, piece_flops = 5e10;
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const int32_t channels = rg_channels_axis(o->layout);
  const bool weight = call->op->id == RG_OP_CONV2D_BACK_WEIGHT;
  const bool back = call->op->id == RG_OP_CONV2D_BACK_DATA;
  rg_conv_cut c = { { -1, -1, -1 }, { -1, -1 }, 1, 1, false, { 1, 1 } };
  double flops = burden(call, o, out);

  if (flops < long_one) {
    return c;
  }
  /* images lie one behind the other; where they are too few pieces, groups may be more */
  const int64_t images = weight ? 1 : out[0]->_shape[0];

  if (images > 1 && ((double)images * piece_flops >= flops || o->groups <= images)) {
    c = (rg_conv_cut){ { 0, -1, -1 }, { 0, -1 }, out[0]->_shape[0], 0, false, { 1, 1 } };
  } else if (o->groups > 1) {
    c = (rg_conv_cut){ { channels, weight ? channels : 0, 0 },
                       { weight ? 0 : channels, 0 },
                       o->groups,
                       0,
                       true,
                       { 1, 1 } };
  } else if (weight) {
    c = (rg_conv_cut){ { -1, channels, -1 }, { 0, 0 }, out[0]->_shape[0], 0, false, { 1, 1 } };
  } else {
    c = (rg_conv_cut){
      { -1, back ? 1 : 0, 0 }, { channels, -1 }, out[0]->_shape[channels], 0, false, { 1, 1 }
    };
  }
  c.step = rg_max_i64(1, (int64_t)((double)c.size * piece_flops / flops));
  /* for one channel of a result AVX2 has loops in C alone in oneDNN, tens of times as slow as its
  ** kernels of whole blocks: rows are cut instead */
  if (c.in[0] < 0 && (c.size > 16 || !weight)) {
    c.step = up_to_16(c.step);
  }
  c.step = rg_min_i64(c.step, c.size);
  flops *= (double)c.step / (double)c.size;
  if (flops > 2 * piece_flops) {
    cut_bands(&c, call, flops, piece_flops);
  }
  return c;
}

/* n of the parts that a cut makes of an axis of x, from first on; a group is several places. */
static rg_tensor part_of(const rg_tensor *x, int32_t axis, const rg_conv_cut *c, int64_t first,
                         int64_t n)
{
  rg_tensor part = rg_tensor_struct(x);

  if (axis < 0) {
    return part;
  }
  first *= x->_shape[axis] / c->size;
  n *= x->_shape[axis] / c->size;
  part._shape[axis] = n;
  part._count = x->_count / x->_shape[axis] * n;
  part._data = (char *)x->_data + first * x->_stride[axis] * rg_dtype_bytes(x->_dtype);
  for (int32_t i = 0; i < axis; i++) {
    if (x->_shape[i] > 1 && n < x->_shape[axis]) {
      part._flags &= ~(uint32_t)RG_TENSOR_CONTIGUOUS;
    }
  }
  part._flags &= ~(uint32_t)RG_TENSOR_PARAM; /* what is kept with a weight is for all of it */
  return part;
}

int64_t rg_conv_count_pieces(const rg_conv_cut *c)
{
  return (c->size + c->step - 1) / c->step * c->bands[0] * c->bands[1];
}

/* Some places of an axis of x, which is a part already. */
static void narrow(rg_tensor *x, int32_t axis, const int64_t at[2])
{
  if (at[1] == x->_shape[axis]) {
    return;
  }
  x->_data = (char *)x->_data + at[0] * x->_stride[axis] * rg_dtype_bytes(x->_dtype);
  x->_count = x->_count / x->_shape[axis] * at[1];
  x->_shape[axis] = at[1];
  x->_flags &= ~(uint32_t)(RG_TENSOR_CONTIGUOUS | RG_TENSOR_PARAM);
}

/* Band k of an axis of a piece. */
static void take_band(rg_conv_piece *p, const rg_call *call, const rg_conv_cut *c, int axis,
                      int64_t k)
{
  const rg_conv2d_args *args = call->args;
  const int32_t op = call->op->id, rows = rg_rows_axis(args->o.layout);
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int64_t size = places(op, &s)[axis], n = c->bands[axis];
  rg_tensor *x = op == RG_OP_CONV2D_BACK_DATA ? &p->out_part[0] : &p->in_part[0];
  rg_tensor *w = op == RG_OP_CONV2D_BACK_WEIGHT ? &p->out_part[0] : &p->in_part[1];
  rg_tensor *y = op == RG_OP_CONV2D             ? &p->out_part[0]
                 : op == RG_OP_CONV2D_BACK_DATA ? &p->in_part[0]
                                                : &p->in_part[1];
  band b;

  if (n == 1) {
    return;
  }
  (void)band_at(op, &s, &args->o, axis, size * k / n, size * (k + 1) / n, &b);
  narrow(x, rows + axis, b.x);
  narrow(w, 2 + axis, b.w);
  narrow(y, rows + axis, b.y);
  p->args.o.pad_low[axis] = b.pad_low;
  p->args.o.pad_high[axis] = b.pad_high;
  if (op == RG_OP_CONV2D_BACK_WEIGHT && k > 0) {
    p->out[1] = NULL; /* the gradient of the bias was made with the first */
  }
}

void rg_conv_take_piece(rg_conv_piece *p, const rg_call *call, rg_tensor *const *out,
                        const rg_conv_cut *c, int64_t k)
{
  const int64_t bands = c->bands[0] * c->bands[1];
  const int64_t first = k / bands * c->step;
  const int64_t n = rg_min_i64(c->step, c->size - first);

  p->call = *call;
  p->call.in = p->in;
  p->args = *(const rg_conv2d_args *)call->args;
  p->call.args = &p->args;
  if (c->groups) {
    p->args.o.groups = n;
  }
  for (int32_t i = 0; i < call->n_in && i < 3; i++) {
    p->in[i] = NULL;
    if (call->in[i] != NULL) {
      p->in_part[i] = part_of(call->in[i], c->in[i], c, first, n);
      p->in[i] = &p->in_part[i];
    }
  }
  for (int32_t i = 0; i < call->n_out && i < 2; i++) {
    p->out[i] = NULL;
    if (out[i] != NULL) {
      p->out_part[i] = part_of(out[i], c->out[i], c, first, n);
      p->out[i] = &p->out_part[i];
    }
  }
  take_band(p, call, c, 0, k % bands / c->bands[1]);
  take_band(p, call, c, 1, k % c->bands[1]);
}
