/* SPDX-License-Identifier: MIT */
/*
** Singular value decomposition by LAPACK's gesdd, out of the OpenBLAS that is linked anyway.
**
** LAPACK stores columns, ridge rows: what is x to us is x' to LAPACK, and x' = V diag(s) U'.  So
** LAPACK's left basis V, stored by columns, is vt stored by rows, and the other way round: nothing
** has to be transposed.
**
** gesdd never looks at Ctrl-C.  A problem that takes longer than a person notices is a structure of
** its own with all that gesdd writes, and is solved aside: who is asked to stop leaves it there.
*/
#include <math.h>
#include <string.h>

#include "cpu/rows.h"

rg_kernel rg_cpu_svd;

/* Weak: an OpenBLAS built without LAPACK loads all the same. */
__attribute__((weak)) void sgesdd_(const char *job, const int *m, const int *n, float *a,
                                   const int *lda, float *s, float *u, const int *ldu, float *vt,
                                   const int *ldvt, float *work, const int *lwork, int *iwork,
                                   int *info, size_t job_length);
__attribute__((weak)) void dgesdd_(const char *job, const int *m, const int *n, double *a,
                                   const int *lda, double *s, double *u, const int *ldu, double *vt,
                                   const int *ldvt, double *work, const int *lwork, int *iwork,
                                   int *info, size_t job_length);

typedef struct problem {
  int rows, cols, k; /* of x */
  bool wide;         /* f64 */
  void *a, *u, *s, *vt;
  rg_block block; /* they */
  rg_block work;
  int lwork;
  int info;
} problem;

/* rows * cols * k from which a problem is solved aside: some milliseconds. */
static const double aside_from = 1e6;

static void gesdd(const problem *p, void *work, int lwork, int *iwork, int *info)
{
  /* LAPACK's matrix is x': p->cols rows */
  if (p->wide) {
    dgesdd_("S", &p->cols, &p->rows, p->a, &p->cols, p->s, p->vt, &p->cols, p->u, &p->k, work,
            &lwork, iwork, info, 1);
  } else {
    sgesdd_("S", &p->cols, &p->rows, p->a, &p->cols, p->s, p->vt, &p->cols, p->u, &p->k, work,
            &lwork, iwork, info, 1);
  }
}

static bool all_finite(const problem *p)
{
  size_t n = (size_t)p->rows * (size_t)p->cols;

  for (size_t i = 0; i < n; i++) {
    if (!isfinite(p->wide ? ((const double *)p->a)[i] : (double)((const float *)p->a)[i])) {
      return false;
    }
  }
  return true;
}

static void solve(void *work)
{
  problem *p = work;
  int64_t iwork_bytes = (int64_t)p->k * 8 * (int64_t)sizeof(int);

  gesdd(p, (char *)p->work.data + iwork_bytes, p->lwork, p->work.data, &p->info);
}

static void drop(void *work)
{
  problem *p = work;

  if (p->work.data != NULL) {
    rg_block_free(&p->work);
  }
  if (p->block.data != NULL) {
    rg_block_free(&p->block);
  }
  rg_host_free(p);
}

/* What gesdd wants to work in. */
static rg_status take_work(problem *p)
{
  union {
    float f32;
    double f64;
  } room = { .f64 = 0 };
  int64_t size = p->wide ? 8 : 4;
  int info = 0;

  gesdd(p, &room, -1, NULL, &info);
  if (info != 0) {
    return rg_fail(RG_EBUG, "svd: gesdd refuses argument %d", -info);
  }
  /* one more than said: sgesdd rounds the size into a float */
  p->lwork = (int)((p->wide ? room.f64 : (double)room.f32) * (1 + 1e-6)) + 1;
  return rg_block_alloc_shared(RG_CPU, (int64_t)p->k * 8 * (int64_t)sizeof(int) + p->lwork * size,
                               &p->work);
}

/* Copies of x and room for the results, in memory of the problem's own. */
static rg_status take_matrices(problem *p, const rg_tensor *x, rg_tensor *const *out)
{
  int64_t size = rg_dtype_bytes(x->_dtype);
  int64_t bytes[4] = { x->_count * size, out[0]->_count * size, p->k * size,
                       out[2]->_count * size };
  char *at[4];
  int64_t total = 0;

  for (int i = 0; i < 4; i++) {
    total += rg_round_up(bytes[i], 64);
  }
  RG_TRY(rg_block_alloc_shared(RG_CPU, total, &p->block));
  at[0] = p->block.data;
  for (int i = 1; i < 4; i++) {
    at[i] = at[i - 1] + rg_round_up(bytes[i - 1], 64);
  }
  for (int64_t i = 0; i < x->_count; i++) { /* gesdd destroys its matrix: always a copy */
    int64_t from = i / x->_shape[1] * x->_stride[0] + i % x->_shape[1] * x->_stride[1];
    memcpy(at[0] + i * size, (const char *)x->_data + from * size, (size_t)size);
  }
  p->a = at[0];
  p->u = at[1];
  p->s = at[2];
  p->vt = at[3];
  return RG_OK;
}

/* Solve it; with RG_EINTR it is no longer the caller's. */
static rg_status decompose(problem *p)
{
  if ((double)p->rows * p->cols * p->k < aside_from) {
    solve(p);
    return RG_OK;
  }
  return rg_aside(solve, drop, p);
}

static rg_status ready(problem *p, const rg_tensor *x, rg_tensor *const *out)
{
  RG_TRY(take_matrices(p, x, out));
  if (!all_finite(p)) {
    return rg_fail(RG_EARG, "svd: x [%d,%d] holds nan or infinity", p->rows, p->cols);
  }
  return take_work(p);
}

static rg_status outcome(const problem *p)
{
  if (p->info > 0) {
    return rg_fail(RG_EARG, "svd: gesdd did not converge on x [%d,%d]", p->rows, p->cols);
  }
  return p->info == 0 ? RG_OK : rg_fail(RG_EBUG, "svd: gesdd refuses argument %d", -p->info);
}

/* Copy contiguous numbers into a result of any strides (at most two axes). */
static void deliver(const char *from, const rg_tensor *x)
{
  int64_t size = rg_dtype_bytes(x->_dtype);
  int64_t n = x->_shape[x->_ndim - 1];

  for (int64_t i = 0; i < x->_count; i++) {
    int64_t at = i % n * x->_stride[x->_ndim - 1] + (x->_ndim > 1 ? i / n * x->_stride[0] : 0);
    memcpy((char *)x->_data + at * size, from + i * size, (size_t)size);
  }
}

rg_status rg_cpu_svd(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  int64_t k = out[1]->_shape[0];
  problem *p;
  rg_status status;

  if (sgesdd_ == NULL || dgesdd_ == NULL) {
    return rg_fail(RG_ENOSUP, "svd: the OpenBLAS that is linked was built without LAPACK");
  }
  if (k == 0) {
    return RG_OK;
  }
  if (x->_shape[0] > INT32_MAX || x->_shape[1] > INT32_MAX) {
    return rg_fail(RG_ENOSUP, "svd: LAPACK takes sizes up to 2147483647");
  }
  p = rg_host_zeroed(sizeof(*p));
  if (p == NULL) {
    return rg_fail(RG_ENOMEM, "svd: out of memory");
  }
  p->wide = x->_dtype == RG_F64;
  p->rows = (int)x->_shape[0];
  p->cols = (int)x->_shape[1];
  p->k = (int)k;
  frame->path = "gesdd";
  status = ready(p, x, out);
  if (status == RG_OK) {
    RG_TRY(decompose(p));
    status = outcome(p);
  }
  if (status == RG_OK) {
    deliver(p->u, out[0]);
    deliver(p->s, out[1]);
    deliver(p->vt, out[2]);
  }
  drop(p);
  return status;
}
