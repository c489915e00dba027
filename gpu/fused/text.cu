/* SPDX-License-Identifier: MIT */
/*
** Writing the text of a chain's kernel: the same steps, in the same order, as the kernel of
** fused.cu goes through them, so that both give the same bits.
*/
#include "gpu/fused/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

extern "C" {
#include "op/formulas.h"
#include "op/list.h"
}

/* data.h, formulas.h and memory.h, as they are in the source (gpu.mk) */
static const char HEAD[] =
#include "fused_text.inc"
    ;

static_assert((int)RG_FUSED_READ == RG_FUSED_INPUTS && (int)RG_FUSED_WRITTEN == RG_MAX_OUT,
              "kernels are given as many tensors as a chain may have");

struct writing {
  char *to;
  size_t room, used; /* used == room: it did not fit */
};

__attribute__((format(printf, 2, 3))) static void add(writing *w, const char *format, ...)
{
  va_list args;
  int n;

  va_start(args, format);
  n = vsnprintf(w->to + w->used, w->room - w->used, format, args);
  va_end(args);
  w->used = n < 0 || (size_t)n >= w->room - w->used ? w->room : w->used + (size_t)n;
}

/* -- Names ------------------------------------------------------------------------------------- */

static const char *one_of(int32_t id)
{
  switch (id) {
#define CASE(NAME, ...) \
  case RG_OP_##NAME:    \
    return "one_" #NAME;
    RG_UNARY_FORMULAS(CASE, , , , )
#undef CASE
  default:
    return NULL;
  }
}

static const char *two_of(int32_t id)
{
  switch (id) {
#define CASE(NAME, ...) \
  case RG_OP_##NAME:    \
    return "two_" #NAME;
    RG_BINARY_FORMULAS(CASE, , , )
#undef CASE
  default:
    return NULL;
  }
}

static const char *slope_of(int32_t act)
{
  switch (act) {
#define CASE(NAME, ...) \
  case RG_ACT_##NAME:   \
    return "slope_" #NAME;
    RG_SLOPE_FORMULAS(CASE, , , , )
#undef CASE
  default:
    return NULL;
  }
}

static int type_of(int32_t dtype)
{
  return dtype == RG_F32 ? RG_PART_F32 : dtype == RG_F16 ? RG_PART_F16 : RG_PART_BF16;
}

/* -- Links ------------------------------------------------------------------------------------- */

static void fetch(writing *w, const rg_fused_form *f, const char *v, int32_t i)
{
  add(w, "  fetch<%d, %d, N>(%s, d.in[%d], i);\n", f->in_type[i], f->in_lies[i], v, i);
}

/* False where the link has no text. */
static bool link(writing *w, const rg_fused_form *f, const rg_link &l)
{
  const char *name = NULL;

  if (l.load >= 0) {
    fetch(w, f, "v", l.load);
  }
  if (l.with >= 0) {
    fetch(w, f, "w", l.with);
  } else if (l.with == RG_FUSED_VALUE) {
    add(w, "  COPY(w, v[j])\n");
  } else if (l.with == RG_FUSED_NUMBER) {
    const float number = (float)l.number;
    uint32_t bits;

    memcpy(&bits, &number, sizeof(bits));
    add(w, "  COPY(w, __uint_as_float(0x%08xu))\n", bits);
  }
  if (l.reversed) {
    add(w, "  TURN\n");
  }
  if (l.id == RG_OP_ACT_BACK) {
    name = slope_of(l.act);
    add(w, "  EACH(v[j] * %s(w[j]))\n", name != NULL ? name : "");
  } else if (l.id >= 0 && l.with == RG_FUSED_NONE) {
    name = one_of(l.id);
    add(w, "  EACH(%s(v[j]))\n", name != NULL ? name : "");
  } else if (l.id >= 0) {
    name = two_of(l.id);
    add(w, "  EACH(%s(v[j], w[j]))\n", name != NULL ? name : "");
  }
  if (l.dtype != RG_F32) {
    add(w, "  EACH(rounded<%d>(v[j]))\n", type_of(l.dtype));
  }
  if (l.store >= 0) {
    add(w, "  put<%d, %d, N>(d.out[%d], i, v);\n", f->out_type[l.store], f->out_lies[l.store],
        l.store);
  }
  return l.id < 0 || name != NULL;
}

size_t rg_fused_text(const rg_fused_form *form, char *to, size_t room)
{
  writing w = { to, room, 0 };
  const int32_t packs = form->packs == 2 ? 2 : 1;
  bool known = true;

  add(&w, "typedef %s index;\n%s", form->narrow ? "unsigned" : "long long", HEAD);
  add(&w, "template <int N> __device__ inline void links(const rg_fused_data &d, index i)\n{\n"
          "  float v[N] = {}, w[N] = {};\n");
  for (int32_t s = 0; s < form->n; s++) {
    known = link(&w, form, form->link[s]) && known;
  }
  add(&w,
      "}\n\nextern \"C\" __global__ void __launch_bounds__(%d)\n" RG_FUSED_KERNEL
      "(const __grid_constant__ rg_fused_data d)\n{\n"
      "  const long long step = (long long)gridDim.x * %d * APART;\n"
      "  long long i = (long long)blockIdx.x * %d * APART + threadIdx.x * 8;\n\n",
      RG_FUSED_THREADS, packs, packs);
  if (packs == 2) {
    add(&w, "  for (; i + APART + 8 <= d.count; i += step) {\n    links<16>(d, (index)i);\n  }\n"
            "  if (i + 8 <= d.count) {\n    links<8>(d, (index)i);\n    i += APART;\n  }\n");
  } else {
    add(&w, "  for (; i + 8 <= d.count; i += step) {\n    links<8>(d, (index)i);\n  }\n");
  }
  add(&w,
      "  for (long long j = i; j < d.count && j < i + 8; j++) {\n    links<1>(d, (index)j);\n  }\n"
      "}\n");
  return known && w.used < w.room ? w.used : 0;
}
