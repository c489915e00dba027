/* SPDX-License-Identifier: MIT */
/*
** The way that is expected to be the fastest, by sizes alone, for rates of instruction sets that
** this machine need not have: convolutions of which one way took at most two thirds of the time of
** the others when they were measured (results/kept/conv_ways.txt, results/kept/conv_zen3.txt).
*/
#include "cpu/conv_model.h"
#include "tap.h"

enum { FORWARD, DATA, WEIGHT }; /* works, in the order of the rates */
enum {
  BLOCKED = RG_CONV_BLOCKED,
  PLAIN = RG_CONV_PLAIN,
  TILES = RG_CONV_TILES,
  PRODUCT = RG_CONV_PRODUCT,
  IMPLICIT = RG_CONV_IMPLICIT
};
enum { FIRST = RG_NCHW, LAST = RG_NHWC };

typedef struct shape {
  int32_t work, layout;
  int64_t n, c, rows, columns, o, kernel, stride, groups;
  int32_t way;
} shape;

/* An AMD EPYC (Zen 3), which has AVX2 alone. */
static const shape f32_avx2[] = {
  { FORWARD, LAST, 1, 136, 28, 28, 136, 3, 1, 136, PLAIN },
  { FORWARD, LAST, 1, 544, 7, 7, 544, 3, 1, 544, PLAIN },
  { FORWARD, LAST, 4, 48, 31, 31, 48, 1, 1, 48, PLAIN },
  { FORWARD, LAST, 4, 128, 31, 31, 128, 1, 2, 128, BLOCKED },
  { FORWARD, LAST, 1, 544, 7, 7, 544, 1, 1, 4, IMPLICIT },
  { FORWARD, LAST, 1, 24, 56, 56, 112, 1, 1, 4, IMPLICIT },
  { FORWARD, LAST, 1, 128, 112, 7, 16, 1, 2, 1, IMPLICIT },
  { FORWARD, LAST, 64, 12, 5, 13, 12, 1, 2, 1, IMPLICIT },
  { FORWARD, LAST, 1, 64, 56, 56, 256, 1, 1, 1, PLAIN },
  { FORWARD, LAST, 1, 144, 56, 56, 24, 1, 1, 1, PLAIN },
  { FORWARD, LAST, 1, 3, 224, 224, 64, 3, 2, 1, PLAIN },
  { FORWARD, FIRST, 1, 96, 32, 32, 16, 5, 2, 1, BLOCKED },
  { FORWARD, FIRST, 64, 96, 9, 9, 96, 3, 2, 96, BLOCKED },
  { FORWARD, FIRST, 1, 48, 5, 5, 512, 5, 2, 2, BLOCKED },
  { FORWARD, FIRST, 16, 32, 31, 28, 1, 3, 1, 1, TILES },
  { FORWARD, FIRST, 64, 6, 17, 32, 1, 3, 1, 1, TILES },
  { FORWARD, FIRST, 16, 32, 56, 56, 48, 1, 1, 8, PLAIN },
  { FORWARD, FIRST, 4, 48, 7, 7, 512, 1, 2, 1, PLAIN },
  { FORWARD, FIRST, 16, 192, 17, 17, 2, 1, 1, 1, PRODUCT },
  { FORWARD, FIRST, 16, 3, 17, 17, 256, 1, 1, 1, PRODUCT },
  { DATA, FIRST, 4, 48, 31, 13, 6, 3, 1, 2, TILES },
  { DATA, FIRST, 16, 2, 32, 32, 2, 5, 1, 1, TILES },
  { DATA, FIRST, 16, 1, 9, 9, 256, 7, 1, 1, PLAIN },
  { DATA, FIRST, 4, 2, 5, 5, 512, 3, 1, 1, PLAIN },
  { DATA, FIRST, 64, 2, 17, 17, 256, 3, 2, 1, PLAIN },
  { DATA, FIRST, 16, 64, 32, 32, 2, 7, 2, 1, BLOCKED },
  { DATA, FIRST, 4, 24, 17, 17, 24, 5, 2, 24, BLOCKED },
  { DATA, FIRST, 16, 256, 13, 5, 3, 5, 1, 1, BLOCKED },
  { DATA, LAST, 4, 48, 31, 13, 6, 3, 1, 2, PLAIN },
  { DATA, LAST, 1, 64, 112, 112, 8, 3, 2, 8, PLAIN },
  { WEIGHT, FIRST, 1, 24, 224, 5, 1, 7, 2, 1, BLOCKED },
  { WEIGHT, FIRST, 64, 4, 14, 28, 4, 3, 1, 4, BLOCKED },
  { WEIGHT, FIRST, 1, 6, 112, 14, 16, 7, 1, 1, BLOCKED },
  { WEIGHT, FIRST, 16, 24, 56, 56, 2, 1, 1, 1, PLAIN },
  { WEIGHT, FIRST, 64, 64, 17, 17, 4, 1, 1, 1, PLAIN },
  { WEIGHT, FIRST, 16, 1, 9, 9, 256, 7, 1, 1, PLAIN },
  { WEIGHT, LAST, 4, 1, 112, 32, 16, 5, 1, 1, PLAIN },
  { WEIGHT, LAST, 1, 2, 56, 56, 96, 5, 1, 1, PLAIN },
  { WEIGHT, LAST, 16, 32, 31, 28, 1, 3, 1, 1, BLOCKED },
  /* rules that stand beside the rates: kernels of 40 to 190 and of 6 times the time on an Intel */
  { WEIGHT, LAST, 2, 16, 12, 12, 16, 5, 1, 16, BLOCKED },
  { WEIGHT, LAST, 2, 16, 12, 12, 16, 3, 1, 16, PLAIN },
  { WEIGHT, LAST, 2, 64, 12, 12, 1, 1, 1, 1, PRODUCT },
  { DATA, LAST, 2, 1, 12, 12, 64, 1, 1, 1, PRODUCT },
  { FORWARD, LAST, 2, 1, 12, 12, 1, 3, 1, 1, BLOCKED },
  { DATA, FIRST, 1, 1, 14, 14, 3, 7, 2, 1, BLOCKED },
};

/* An Intel Xeon (Emerald Rapids). */
static const shape f32_avx512[] = {
  { DATA, FIRST, 1, 2, 7, 5, 96, 5, 1, 1, PLAIN },
  { DATA, FIRST, 16, 24, 56, 32, 3, 1, 1, 1, PLAIN },
  { FORWARD, FIRST, 64, 32, 32, 7, 1, 1, 1, 1, PLAIN },
  { WEIGHT, FIRST, 64, 32, 32, 7, 1, 1, 1, 1, PLAIN },
  { DATA, FIRST, 16, 2, 9, 28, 64, 1, 1, 1, PLAIN },
  { WEIGHT, FIRST, 16, 24, 56, 32, 3, 1, 1, 1, PLAIN },
  { FORWARD, FIRST, 4, 6, 28, 17, 32, 1, 1, 1, PLAIN },
  { DATA, LAST, 16, 8, 9, 28, 6, 1, 1, 1, PRODUCT },
  { DATA, FIRST, 64, 24, 56, 7, 2, 3, 1, 1, TILES },
  { WEIGHT, FIRST, 64, 24, 14, 13, 8, 1, 1, 1, PLAIN },
};

static const shape bf16_amx[] = {
  { WEIGHT, FIRST, 64, 32, 32, 7, 1, 1, 1, 1, PLAIN },
  { FORWARD, FIRST, 64, 32, 32, 7, 1, 1, 1, 1, PLAIN },
  { WEIGHT, FIRST, 64, 128, 28, 7, 6, 1, 1, 1, PLAIN },
  { DATA, LAST, 1, 16, 5, 5, 128, 1, 1, 1, PRODUCT },
  { WEIGHT, LAST, 64, 32, 32, 7, 1, 1, 1, 1, PRODUCT },
  { WEIGHT, LAST, 1, 96, 28, 32, 96, 5, 2, 96, BLOCKED },
  { FORWARD, FIRST, 1, 32, 56, 28, 32, 1, 1, 1, PLAIN },
  { DATA, FIRST, 64, 32, 32, 7, 1, 1, 1, 1, PRODUCT },
};

static int32_t expected(const shape *t, int32_t set)
{
  const int64_t pad = (t->kernel - 1) / 2;
  const bool one = t->kernel == 1 && t->stride == 1 && t->groups == 1;
  const bool whole = t->c / t->groups % 16 == 0 && t->o / t->groups % 16 == 0; /* vectors */
  const bool first = t->layout == FIRST, f32 = set <= RG_RATES_F32_AVX512;
  const bool able[RG_WAYS] = {
    [BLOCKED] = true,
    [PLAIN] = t->kernel > 1 || t->stride == 1 || whole,
    [TILES] = first && f32 && t->work != WEIGHT && t->stride == 1,
    [PRODUCT] = one && !(first && t->work == WEIGHT && t->n > 1),
    [IMPLICIT] = !first && t->work == FORWARD && set == RG_RATES_F32_AVX2,
  };
  const rg_conv2d_options o = { .stride = { t->stride, t->stride },
                                .pad_low = { pad, pad },
                                .pad_high = { pad, pad },
                                .dilation = { 1, 1 },
                                .groups = t->groups,
                                .layout = t->layout };
  rg_conv2d_sizes s = { .n = t->n, .c = t->c, .o = t->o, .groups = t->groups };

  s.x[0] = t->rows;
  s.x[1] = t->columns;
  for (int i = 0; i < 2; i++) {
    s.w[i] = t->kernel;
    s.y[i] = (s.x[i] + 2 * pad - t->kernel) / t->stride + 1;
  }
  return rg_conv_fastest(&s, &o, t->work, set, able);
}

static void check(const char *name, int32_t set, const shape *list, size_t n)
{
  char what[80];

  for (size_t i = 0; i < n; i++) {
    snprintf(what, sizeof(what), "%s, number %d", name, (int)i);
    is_int(expected(&list[i], set), list[i].way, what);
  }
}

#define CHECK(name, set, list) check(name, set, list, sizeof(list) / sizeof(*(list)))

int main(void)
{
  const bool none[RG_WAYS] = { false };
  const rg_conv2d_options o = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
  const rg_conv2d_sizes s = { 1, 8, 8, { 5, 5 }, { 3, 3 }, { 3, 3 }, 1 };
  const shape few = { FORWARD, LAST, 1, 64, 9, 9, 64, 3, 1, 1, 0 };

  CHECK("f32 with AVX2", RG_RATES_F32_AVX2, f32_avx2);
  CHECK("f32 with AVX-512", RG_RATES_F32_AVX512, f32_avx512);
  CHECK("bf16 with AMX", RG_RATES_BF16_AMX, bf16_amx);
  is_int(rg_conv_fastest(&s, &o, FORWARD, RG_RATES_F32_AVX2, none), RG_CONV_AUTO,
         "no way, where none is able");
  for (int32_t set = 0; set < RG_RATES_SETS; set++) {
    const int32_t way = expected(&few, set);

    ok(set == RG_RATES_F32_AVX2 || way != IMPLICIT, "no way without rates");
  }
  return done();
}
