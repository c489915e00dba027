/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes whose image ends where memory ends: a kernel that reads one byte behind it
** does not come back.
*/
#include <sys/mman.h>
#include <unistd.h>

#include "ridge.h"
#include "tap.h"

typedef struct geometry {
  const char *name;
  int64_t x[4]; /* images, rows, columns, channels */
  int64_t w[4]; /* channels out, channels of a group, rows, columns */
  int64_t stride, dilation;
  int32_t groups;
} geometry;

static const geometry LIST[] = {
  { "gathered", { 2, 5, 6, 3 }, { 5, 3, 3, 2 }, 1, 1, 1 },
  { "gathered, one result", { 1, 3, 3, 3 }, { 2, 3, 3, 3 }, 1, 1, 1 },
  { "gathered, steps of two", { 1, 7, 9, 5 }, { 4, 5, 3, 3 }, 2, 1, 1 },
  { "gathered, dilated", { 3, 7, 9, 4 }, { 2, 4, 3, 3 }, 1, 2, 1 },
  { "in groups", { 1, 4, 5, 6 }, { 9, 2, 2, 3 }, 1, 1, 3 },
  { "of each channel", { 1, 5, 5, 5 }, { 5, 1, 3, 3 }, 1, 1, 5 },
  { "of each of many channels", { 1, 3, 9, 40 }, { 40, 1, 2, 3 }, 1, 1, 40 },
  { "in place", { 2, 6, 17, 8 }, { 33, 8, 3, 3 }, 1, 1, 1 },
};

static rg_tensor *of(int32_t dtype, const int64_t *shape, int32_t ndim, double value)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(dtype, RG_CPU, shape, ndim, &x), RG_OK, "a tensor");
  is_status(rg_fill_(x, value), RG_OK, "full of one number");
  return x;
}

static void test_one(const geometry *g, char *end)
{
  const rg_scaled_conv2d_options options = { .conv = { .stride = { g->stride, g->stride },
                                                       .dilation = { g->dilation, g->dilation },
                                                       .groups = g->groups,
                                                       .layout = RG_NHWC } };
  rg_tensor *x = of(RG_U8, g->x, 4, 1);
  rg_tensor *w = of(RG_I8, g->w, 4, 1);
  rg_tensor *one = of(RG_F32, NULL, 0, 1);
  rg_tensor *y = NULL;
  void *own = x->_data;
  bool right = true;

  memset(end - x->_count, 1, (size_t)x->_count);
  x->_data = end - x->_count;
  is_status(rg_scaled_conv2d(x, w, one, one, NULL, NULL, &options, &y), RG_OK, g->name);
  for (int64_t i = 0; i < y->_count; i++) {
    right = right && ((const float *)y->_data)[i] == (float)(g->w[1] * g->w[2] * g->w[3]);
  }
  ok(right, "the sums are right");
  x->_data = own;
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(one);
  rg_tensor_release(y);
}

int main(void)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  ok(room != MAP_FAILED && mprotect(room + page, page, PROT_NONE) == 0, "memory that ends");
  for (int32_t isa = RG_ISA_BASE; isa <= rg_machine_facts()->isa_level; isa++) {
    is_status(rg_set_isa(isa), RG_OK, "an instruction set");
    for (size_t k = 0; k < sizeof(LIST) / sizeof(LIST[0]); k++) {
      test_one(&LIST[k], room + page);
    }
  }
  munmap(room, 2 * page);
  return done();
}
