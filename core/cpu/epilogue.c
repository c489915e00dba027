/* SPDX-License-Identifier: MIT */
/*
** What follows a product, for a run of one row: scale, bias, activation, dropout, conversion.
*/
#include "cpu/cpu.h"
#include "cpu/product.h"
#include "op/draw.h"
#include "tensor/dtype.h"

/* Is element at kept?  Draw number d is word d mod 4 of block d / 4, as in core/cpu/random.c. */
static bool kept(const rg_epilogue *epilogue, uint64_t at)
{
  uint32_t word[4];
  uint64_t d = epilogue->draw.offset + at;

  rg_philox(epilogue->draw.seed, d >> 2, word);
  return rg_draw_keeps(word[d & 3], epilogue->p);
}

enum { RUN = 128 }; /* elements that are narrowed together */

/* n sums of a row, from column j on, through the epilogue; y may be sum. */
static void through(const rg_product *p, const float *sum, int64_t i, int64_t j, int64_t n,
                    float *y)
{
  const rg_epilogue *epilogue = &p->epilogue;
  float scale = (float)epilogue->scale;
  float keep = (float)(1.0 / (1.0 - epilogue->p));

  const rg_tensor *bias = epilogue->bias;
  const bool adjacent = bias != NULL && bias->_dtype == RG_F32 && bias->_stride[0] == 1;
  const float *run = adjacent ? (const float *)bias->_data + j : NULL;

  for (int64_t l = 0; adjacent && l < n; l++) {
    y[l] = sum[l] * scale + run[l];
  }
  for (int64_t l = 0; !adjacent && l < n; l++) {
    float x = sum[l] * scale;

    if (bias != NULL) {
      x += rg_element_f32(bias->_data, bias->_dtype, (j + l) * bias->_stride[0]);
    }
    y[l] = x;
  }
  rg_activate(epilogue->act, RG_LANE_F32, y, n);
  for (int64_t l = 0; epilogue->p > 0 && l < n; l++) {
    y[l] = kept(epilogue, (uint64_t)(i * p->n + j + l)) ? y[l] * keep : 0;
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

static void through_f64(const rg_product *p, const double *sum, int64_t i, int64_t j, int64_t n,
                        double *y)
{
  const rg_epilogue *epilogue = &p->epilogue;

  for (int64_t l = 0; l < n; l++) {
    y[l] = sum[l] * epilogue->scale;
    if (epilogue->bias != NULL) {
      y[l] += rg_element_f64(epilogue->bias->_data, epilogue->bias->_dtype,
                             (j + l) * epilogue->bias->_stride[0]);
    }
  }
  rg_activate(epilogue->act, RG_LANE_F64, y, n);
  for (int64_t l = 0; epilogue->p > 0 && l < n; l++) {
    y[l] = kept(epilogue, (uint64_t)(i * p->n + j + l)) ? y[l] / (1.0 - epilogue->p) : 0;
  }
}

void rg_epilogue_row_f64(const rg_product *p, const double *sum, int64_t i, int64_t j, int64_t n)
{
  const rg_dtype *type = &rg_dtypes[p->c_dtype];
  char *to = (char *)p->c + (i * p->c_row + j) * type->bytes;
  double run[RUN];

  for (int64_t l = 0; l < n; l += RUN) {
    int64_t some = rg_min_i64(RUN, n - l);

    through_f64(p, sum + l, i, j + l, some, run);
    type->set(to + l * type->bytes, run, some);
  }
}
