/* SPDX-License-Identifier: MIT */
/*
** Large blocks, which are mapped: where they begin, and that all of each is given back.
*/
#include "ridge.h"
#include "tap.h"

enum { ROUNDS = 12, PAGE = 4096 };

static int64_t n_pages(void)
{
  long long n = 0;
  FILE *file = fopen("/proc/self/statm", "r");

  if (file == NULL || fscanf(file, "%lld", &n) != 1) {
    tap_bail("no /proc/self/statm");
  }
  fclose(file);
  return n;
}

/* A tensor of so many bytes is taken, written and given back to the system. */
static void once(int64_t bytes)
{
  const int64_t shape[1] = { bytes };
  rg_tensor *x = NULL;

  if (rg_empty(RG_U8, RG_CPU, shape, 1, &x) != RG_OK || rg_fill_(x, 3) != RG_OK) {
    tap_bail(rg_error_message());
  }
  if ((uintptr_t)x->_data % 64 != 0) {
    ok(false, "a block begins at a line of the cache");
  }
  rg_tensor_release(x);
  (void)rg_memory_trim(0);
}

int main(void)
{
  static const int64_t sizes[] = { 4 << 20, (6 << 20) - PAGE, (6 << 20) + 1, 9 << 20 };

  for (uint64_t seed = 0; seed < 2; seed++) {
    rg_memory_shift(seed * 5);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
      int64_t before;

      for (int k = 0; k < 3; k++) { /* threads and lists stay */
        once(sizes[i]);
      }
      before = n_pages();
      for (int k = 0; k < ROUNDS; k++) {
        once(sizes[i]);
      }
      is_int((n_pages() - before) / ROUNDS, 0, "what was taken is given back whole");
    }
  }
  rg_memory_shift(0);
  return done();
}
