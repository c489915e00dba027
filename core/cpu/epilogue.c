/* SPDX-License-Identifier: MIT */
/*
** What follows a product, for a run of one row: scale, bias, activation, dropout, conversion.
*/
#include <math.h>

#include "cpu/product.h"
#include "op/draw.h"
#include "op/formulas.h"
#include "tensor/dtype.h"

/* One element at a time, by the C library. */
#define SAME(function)   function
#define SINGLE(function) function##f
#define OF_F64(NAME, name, ...)             \
  static inline double name##_f64(double x) \
  {                                         \
    typedef double T;                       \
    return (T)(__VA_ARGS__);                \
  }
#define OF_F32(NAME, name, ...)           \
  static inline float name##_f32(float x) \
  {                                       \
    typedef float T;                      \
    return (T)(__VA_ARGS__);              \
  }
RG_UNARY_FORMULAS(OF_F64, SAME, exp)
RG_UNARY_FORMULAS(OF_F32, SINGLE, expf)

static double activate_f64(int32_t act, double x)
{
#define CASE(NAME, name) \
  case RG_ACT_##NAME:    \
    return name##_f64(x);
  switch (act) {
    RG_ACT_LIST(CASE)
  default:
    return x;
  }
#undef CASE
}

static float activate_f32(int32_t act, float x)
{
#define CASE(NAME, name) \
  case RG_ACT_##NAME:    \
    return name##_f32(x);
  switch (act) {
    RG_ACT_LIST(CASE)
  default:
    return x;
  }
#undef CASE
}

/* Is element at kept?  Draw number d is word d mod 4 of block d / 4, as in core/cpu/random.c. */
static bool kept(const rg_epilogue *epilogue, uint64_t at)
{
  uint32_t word[4];
  uint64_t d = epilogue->draw.offset + at;

  rg_philox(epilogue->draw.seed, d >> 2, word);
  return rg_draw_keeps(word[d & 3], epilogue->p);
}

enum { RUN = 128 }; /* elements that are narrowed together */

/* n sums of a row, from column j on, through the end; y may be sum. */
static void through(const rg_product *p, const float *sum, int64_t i, int64_t j, int64_t n,
                    float *y)
{
  const rg_epilogue *epilogue = &p->epilogue;
  float scale = (float)epilogue->scale;
  float keep = (float)(1.0 / (1.0 - epilogue->p));

  for (int64_t l = 0; l < n; l++) {
    float x = sum[l] * scale;

    if (epilogue->bias != NULL) {
      x += rg_element_f32(epilogue->bias->_data, epilogue->bias->_dtype,
                          (j + l) * epilogue->bias->_stride[0]);
    }
    x = activate_f32(epilogue->act, x);
    if (epilogue->p > 0) {
      x = kept(epilogue, (uint64_t)(i * p->n + j + l)) ? x * keep : 0;
    }
    y[l] = x;
  }
}

void rg_epilogue_row(const rg_product *p, const float *sum, int64_t i, int64_t j, int64_t n)
{
  const rg_dtype *type = &rg_dtypes[p->c_dtype];
  char *to = (char *)p->c + (i * p->c_row + j) * type->bytes;
  float run[RUN];

  if (p->c_dtype == RG_F32) {
    through(p, sum, i, j, n, (float *)(void *)to);
    return;
  }
  for (int64_t l = 0; l < n; l += RUN) {
    int64_t some = rg_min_i64(RUN, n - l);

    through(p, sum + l, i, j + l, some, run);
    type->set_f32(to + l * type->bytes, run, some);
  }
}

void rg_epilogue_row_f64(const rg_product *p, const double *sum, int64_t i, int64_t j, int64_t n)
{
  const rg_epilogue *epilogue = &p->epilogue;
  char *to = (char *)p->c + (i * p->c_row + j) * rg_dtypes[p->c_dtype].bytes;

  for (int64_t l = 0; l < n; l++) {
    double y = sum[l] * epilogue->scale;

    if (epilogue->bias != NULL) {
      y += rg_element_f64(epilogue->bias->_data, epilogue->bias->_dtype,
                          (j + l) * epilogue->bias->_stride[0]);
    }
    y = activate_f64(epilogue->act, y);
    if (epilogue->p > 0) {
      y = kept(epilogue, (uint64_t)(i * p->n + j + l)) ? y / (1.0 - epilogue->p) : 0;
    }
    rg_dtypes[p->c_dtype].set(to + l * rg_dtypes[p->c_dtype].bytes, &y, 1);
  }
}
