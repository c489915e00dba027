/* SPDX-License-Identifier: MIT */
/*
** Rows in another type than they are stored in.
*/
#include <string.h>

#include "data/data.h"
#include "tensor/tensor.h"

/* rows of a file need not lie as numbers of their type do */
#define CONVERT(T)                                        \
  for (int64_t i = 0; i < n; i++) {                       \
    T x;                                                  \
    memcpy(&x, from + i * (int64_t)sizeof(x), sizeof(x)); \
    to[i] = (float)x * scale + shift;                     \
  }                                                       \
  break

/* The caller checked the type. */
void rg_field_convert(const rg_field *f, const char *from, float *to)
{
  float scale = (float)f->scale;
  float shift = (float)f->shift;
  int64_t n = f->numbers;

  switch (f->dtype) {
  case RG_U8:
    CONVERT(uint8_t);
  case RG_I8:
    CONVERT(int8_t);
  case RG_I32:
    CONVERT(int32_t);
  case RG_I64:
    CONVERT(int64_t);
  case RG_F64:
    CONVERT(double);
  default:
    CONVERT(float);
  }
}

bool rg_field_turns(int32_t dtype)
{
  return dtype == RG_U8 || dtype == RG_I8 || dtype == RG_I32 || dtype == RG_I64 ||
         dtype == RG_F64 || dtype == RG_F32;
}

bool rg_field_converts(const rg_field *f)
{
  return f->out != f->dtype || f->scale != 1 || f->shift != 0;
}
