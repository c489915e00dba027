/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside one long product: it is asked for once the product has worked for a while, by the
** processor's time, and the product says that it was interrupted.
*/
#include <pthread.h>
#include <time.h>

#include "base/base.h"
#include "ridge.h"
#include "tap.h"

static double worked(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Far more than the door needs before it hands the call to a kernel. */
static void *press(void *argument)
{
  double begin = *(double *)argument;
  struct timespec some = { .tv_nsec = 1000000 };

  while (worked() - begin < 0.02) {
    nanosleep(&some, NULL);
  }
  rg_interrupt_set();
  return NULL;
}

static rg_tensor *ones(int32_t dtype, int64_t batch, int64_t n)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ batch, n, n }, 3, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* A product that takes seconds on one thread. */
static void test_product(const char *path, int32_t isa, int32_t dtype, int64_t batch, int64_t n,
                         const char *what)
{
  rg_tensor *x = ones(dtype, batch, n);
  rg_tensor *y = ones(dtype, batch, n);
  rg_tensor *z = NULL;
  pthread_t thread;
  double begin;

  is_status(rg_set_gemm_path(path), RG_OK, path);
  is_status(rg_set_isa(isa), RG_OK, "an instruction set");
  begin = worked();
  if (pthread_create(&thread, NULL, press, &begin) != 0) {
    tap_bail("no thread");
  }
  is_status(rg_matmul(x, y, &z), RG_EINTR, what);
  pthread_join(thread, NULL);
  rg_interrupt_clear();
  rg_tensor_release(z);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

int main(void)
{
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_product("own", RG_ISA_BASE, RG_F32, 1, 3072, "own kernels in f32");
  test_product("openblas", RG_ISA_BASE, RG_F64, 1, 4096, "OpenBLAS in f64");
  test_product("openblas", RG_ISA_BASE, RG_F32, 1, 4096, "OpenBLAS in f32");
  test_product("own", RG_ISA_BASE, RG_I32, 1, 1024, "whole numbers");
  test_product("own", RG_ISA_BASE, RG_F32, 4096, 64, "a batch of small ones");
  return done();
}
