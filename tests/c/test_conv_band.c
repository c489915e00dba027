/* SPDX-License-Identifier: MIT */
/*
** Convolutions cut into bands of rows and columns: each piece is itself a convolution whose
** sizes fit each other, made of the places that its results need, and together they make the whole.
*/
#include <stdlib.h>
#include <string.h>

#include "cpu/conv.h"
#include "ridge.h"
#include "tap.h"

extern const rg_op rg_op_conv2d;
extern const rg_op rg_op_conv2d_back_data;
extern const rg_op rg_op_conv2d_back_weight;

static uint64_t state = 1;

/* From 0 to n - 1. */
static int64_t below(int64_t n)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(state >> 33) % n;
}

/* One image, or kernel, of one channel, of which nothing but sizes and places is looked at. */
static rg_tensor of_size(const int64_t size[2])
{
  static float numbers[1 << 16];

  return (rg_tensor){ ._dtype = RG_F32,
                      ._ndim = 4,
                      ._count = size[0] * size[1],
                      ._data = numbers,
                      ._shape = { 1, 1, size[0], size[1] },
                      ._stride = { size[0] * size[1], size[0] * size[1], size[1], 1 } };
}

/* Where a part begins along an axis. */
static int64_t begin_of(const rg_tensor *part, const rg_tensor *whole, int axis)
{
  const int64_t at = (float *)part->_data - (float *)whole->_data;

  return axis == 0 ? at / whole->_shape[3] : at % whole->_shape[3];
}

typedef struct sides {
  rg_tensor x, w, y;
  rg_call call;
  rg_conv2d_args args;
  const rg_tensor *in[3];
  rg_tensor *out[2];
} sides;

/* A convolution of random sizes, and a call of it or of one of its gradients. */
static bool draw(sides *s, const rg_op *op)
{
  int64_t x[2], w[2], y[2];

  memset(s, 0, sizeof(*s));
  s->args.o.groups = 1;
  for (int i = 0; i < 2; i++) {
    rg_conv2d_options *o = &s->args.o;

    x[i] = 1 + below(40);
    w[i] = 1 + below(5);
    o->stride[i] = 1 + below(4);
    o->dilation[i] = 1 + below(3);
    o->pad_low[i] = below(w[i] + 1);
    o->pad_high[i] = below(w[i] + 1);
    y[i] = x[i] + o->pad_low[i] + o->pad_high[i] - (w[i] - 1) * o->dilation[i] - 1;
    if (y[i] < 0) {
      return false;
    }
    y[i] = y[i] / o->stride[i] + 1;
    s->args.size[i] = op == &rg_op_conv2d_back_data ? x[i] : w[i];
  }
  s->x = of_size(x);
  s->w = of_size(w);
  s->y = of_size(y);
  const bool data = op == &rg_op_conv2d_back_data, weight = op == &rg_op_conv2d_back_weight;

  s->in[0] = data ? &s->y : &s->x;
  s->in[1] = weight ? &s->y : &s->w;
  s->out[0] = data ? &s->x : weight ? &s->w : &s->y;
  s->call = (rg_call){ .op = op, .in = s->in, .n_in = 2, .n_out = 1, .args = &s->args };
  s->call.out[0] = rg_meta_of(s->out[0]);
  return true;
}

/* Does piece p of s along an axis fit?  made: where the next one has to begin. */
static bool fits(const sides *s, const rg_conv_piece *p, int axis, int64_t *made)
{
  const rg_conv2d_options *o = &s->args.o, *part = &p->args.o;
  const bool data = s->out[0] == &s->x, weight = s->out[0] == &s->w;
  const rg_tensor *x = data ? &p->out_part[0] : &p->in_part[0];
  const rg_tensor *w = weight ? &p->out_part[0] : &p->in_part[1];
  const rg_tensor *y = data ? &p->in_part[0] : weight ? &p->in_part[1] : &p->out_part[0];
  const int64_t xs = x->_shape[2 + axis], ws = w->_shape[2 + axis], ys = y->_shape[2 + axis];
  const int64_t x0 = begin_of(x, &s->x, axis), w0 = begin_of(w, &s->w, axis);
  const int64_t y0 = begin_of(y, &s->y, axis);
  const int64_t reach = (ws - 1) * o->dilation[axis];
  const int64_t room = xs + part->pad_low[axis] + part->pad_high[axis] - reach - 1;
  const int64_t begin = data ? x0 : weight ? w0 : y0;
  const int64_t end = begin + (data ? xs : weight ? ws : ys);
  bool right = begin == *made && xs > 0 && ws > 0 && ys > 0;

  *made = end;
  /* the same windows over the same places, and as many of them as it has results */
  right = right && x0 - part->pad_low[axis] ==
                       y0 * o->stride[axis] + w0 * o->dilation[axis] - o->pad_low[axis];
  right = right && room >= 0 && room / o->stride[axis] + 1 == ys;
  right = right && x0 + xs <= s->x._shape[2 + axis] && y0 + ys <= s->y._shape[2 + axis] &&
          w0 + ws <= s->w._shape[2 + axis];
  /* of x, what no window of the piece reaches is reached by none */
  right = right && (!data || y0 == 0 || (y0 - 1) * o->stride[axis] - o->pad_low[axis] + reach < x0);
  right = right && (!data || y0 + ys == s->y._shape[2 + axis] ||
                    (y0 + ys) * o->stride[axis] - o->pad_low[axis] >= end);
  /* what libraries take no less than: nothing is left out but at the end */
  right = right && part->pad_high[axis] >= 0 &&
          (weight || data || room % o->stride[axis] == 0 || end == s->y._shape[2 + axis]);
  return right && part->stride[axis] == o->stride[axis] &&
         part->dilation[axis] == o->dilation[axis];
}

static void test_bands(const rg_op *op)
{
  int64_t n = 0, wrong = 0, padding = 0;

  while (n < 3000) {
    sides s;
    rg_conv_piece *p = malloc(sizeof(*p));
    int64_t made[2] = { 0, 0 };
    bool right = true, reads = true;

    if (p == NULL || !draw(&s, op)) {
      free(p);
      continue;
    }
    const int axis = (int)below(2);
    const int64_t size = s.out[0]->_shape[2 + axis];
    rg_conv_cut c = { { -1, -1, -1 }, { -1, -1 }, 1, 1, false, { 1, 1 } };

    c.bands[axis] = 1 + below(size < 6 ? size : 6);
    for (int64_t k = 0; k < rg_conv_count_pieces(&c); k++) {
      rg_conv_take_piece(p, &s.call, s.out, &c, k);
      /* bands that read padding alone are never taken: fewer are */
      reads = reads && (op == &rg_op_conv2d_back_data || p->in_part[0]._shape[2 + axis] > 0);
      right = right && (!reads || c.bands[axis] == 1 || fits(&s, p, axis, &made[axis]));
    }
    right = right && (!reads || c.bands[axis] == 1 || made[axis] == size);
    wrong += right ? 0 : 1;
    padding += reads ? 0 : 1;
    n++;
    free(p);
  }
  is_int(wrong, 0, op->name);
  ok(padding < 1500, "most read more than padding");
}

static rg_tensor image(int64_t channels, int64_t outs, int64_t size)
{
  rg_tensor x = of_size((const int64_t[]){ size, size });

  x._shape[0] = outs;
  x._shape[1] = channels;
  x._stride[1] = size * size;
  x._stride[0] = channels * size * size;
  x._count = outs * channels * size * size;
  return x;
}

/* One image of few channels goes in bands of rows, each with all channels: for one channel alone
** oneDNN's AVX2 has nothing but loops. */
static void test_channels_stay(const rg_op *op, int64_t channels)
{
  sides s = { .args.o = { .stride = { 1, 1 },
                          .dilation = { 1, 1 },
                          .groups = 1,
                          .pad_low = { 7, 7 },
                          .pad_high = { 7, 7 } },
              .args.size = { 1024, 1024 } };
  rg_conv_cut c;

  s.x = image(channels, 1, 1024);
  s.y = image(channels, 1, 1024);
  s.w = image(channels, channels, 15);
  const bool data = op == &rg_op_conv2d_back_data;

  s.in[0] = data ? &s.y : &s.x;
  s.in[1] = &s.w;
  s.out[0] = data ? &s.x : &s.y;
  s.call = (rg_call){ .op = op, .in = s.in, .n_in = 2, .n_out = 1, .args = &s.args };
  s.call.out[0] = rg_meta_of(s.out[0]);
  c = rg_conv_cut_of(&s.call, s.out);
  is_int(c.step, channels, "channels stay together");
  ok(c.bands[0] > 1, "rows are cut");
}

int main(void)
{
  for (int64_t channels = 2; channels <= 16; channels *= 2) {
    test_channels_stay(&rg_op_conv2d, channels);
    test_channels_stay(&rg_op_conv2d_back_data, channels);
  }
  test_bands(&rg_op_conv2d);
  test_bands(&rg_op_conv2d_back_weight);
  test_bands(&rg_op_conv2d_back_data);
  return done();
}
