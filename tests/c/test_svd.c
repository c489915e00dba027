/* SPDX-License-Identifier: MIT */
/*
** Singular value decomposition: the factors multiply back, the bases are orthonormal, the values
** fall, nan is refused, and so is what LAPACK says it has not solved.  Its functions are here on
** their way to it, and say so when they are told to.
*/
#include <dlfcn.h>

#include "ridge.h"
#include "tap.h"

/* -- On their way to LAPACK ------------------------------------------------------------------ */

static int say; /* what comes out of the next solution, where it is not 0 */

#define SOLVES(name, T)                                                                           \
  void name(const char *job, const int *m, const int *n, T *a, const int *lda, T *s, T *u,        \
            const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, int *iwork,        \
            int *info, size_t job_length);                                                        \
  void name(const char *job, const int *m, const int *n, T *a, const int *lda, T *s, T *u,        \
            const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, int *iwork,        \
            int *info, size_t job_length)                                                         \
  {                                                                                               \
    void (*next)(const char *, const int *, const int *, T *, const int *, T *, T *, const int *, \
                 T *, const int *, T *, const int *, int *, int *, size_t);                       \
    void *found = dlsym(RTLD_NEXT, #name);                                                        \
                                                                                                  \
    if (found == NULL) {                                                                          \
      tap_bail(#name);                                                                            \
    }                                                                                             \
    memcpy(&next, &found, sizeof(next));                                                          \
    next(job, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork, info, job_length);           \
    if (*lwork >= 0 && say != 0) {                                                                \
      *info = say;                                                                                \
    }                                                                                             \
  }

SOLVES(sgesdd_, float)
SOLVES(dgesdd_, double)

/* Element (i, j), or element j of a vector. */
static double at2(const rg_tensor *x, int64_t i, int64_t j)
{
  double value = NAN;

  if (rg_tensor_get(x, (const int64_t[]){ i, j }, 2, &value) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return value;
}

static double at(const rg_tensor *x, int64_t i)
{
  double value = NAN;

  if (rg_tensor_get(x, &i, 1, &value) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return value;
}

static rg_tensor *matrix(int32_t dtype, int64_t rows, int64_t cols)
{
  double values[64];
  rg_tensor *x = NULL;

  for (int64_t i = 0; i < rows * cols; i++) {
    values[i] = sin((double)(i * i + 3 * i + 1));
  }
  if (rg_tensor_from_doubles(values, rows * cols, dtype, (const int64_t[]){ rows, cols }, 2, &x) !=
      RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return x;
}

/* -- SVD ------------------------------------------------------------------------------------- */

static void test_svd(void)
{
  for (int turn = 0; turn < 4; turn++) {
    int64_t m = turn % 2 == 0 ? 7 : 4;
    int64_t n = 11 - m;
    int32_t dtype = turn < 2 ? RG_F64 : RG_F32;
    double tolerance = turn < 2 ? 1e-12 : 1e-5;
    rg_tensor *x = matrix(dtype, m, n);
    rg_tensor *u = NULL, *s = NULL, *vt = NULL;
    double worst = 0, skew = 0;
    bool falling = true;

    is_status(rg_svd(x, &u, &s, &vt), RG_OK, "svd");
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t r = 0; r < 4; r++) {
          sum += at2(u, i, r) * at(s, r) * at2(vt, r, j);
        }
        worst = fmax(worst, fabs(sum - at2(x, i, j)));
      }
    }
    for (int64_t a = 0; a < 4; a++) {
      falling = falling && at(s, a) >= 0 && (a == 0 || at(s, a) <= at(s, a - 1));
      for (int64_t b = 0; b < 4; b++) {
        double uu = 0, vv = 0;
        for (int64_t i = 0; i < m; i++) {
          uu += at2(u, i, a) * at2(u, i, b);
        }
        for (int64_t j = 0; j < n; j++) {
          vv += at2(vt, a, j) * at2(vt, b, j);
        }
        skew = fmax(skew, fmax(fabs(uu - (a == b)), fabs(vv - (a == b))));
      }
    }
    close_to(worst, 0, tolerance, "u diag(s) vt is x");
    close_to(skew, 0, tolerance, "both bases are orthonormal");
    ok(falling, "singular values fall");
    rg_tensor_release(u);
    rg_tensor_release(s);
    rg_tensor_release(vt);
    u = s = vt = NULL;
    is_status(rg_tensor_set(x, (const int64_t[]){ 1, 1 }, 2, NAN), RG_OK, "nan");
    is_status(rg_svd(x, &u, &s, &vt), RG_EARG, "nan is refused");
    ok(u == NULL && s == NULL && vt == NULL, "nothing was written");
    rg_tensor_release(x);
  }
}

/* Nothing is delivered of what was not solved. */
static void test_unsolved(int32_t dtype)
{
  rg_tensor *x = matrix(dtype, 5, 3);
  rg_tensor *u = NULL, *s = NULL, *vt = NULL;

  say = 2;
  is_status(rg_svd(x, &u, &s, &vt), RG_EARG, "one that does not converge");
  ok(strstr(rg_error_message(), "did not converge on x [5,3]") != NULL, "is told with its sizes");
  say = -4;
  is_status(rg_svd(x, &u, &s, &vt), RG_EBUG, "an argument that is refused");
  ok(strstr(rg_error_message(), "refuses argument 4") != NULL, "is told by its number");
  ok(u == NULL && s == NULL && vt == NULL, "and nothing comes out");
  say = 0;
  is_status(rg_svd(x, &u, &s, &vt), RG_OK, "solved");
  rg_tensor_release(x);
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
}

int main(void)
{
  int64_t before = rg_live_tensors();

  test_svd();
  test_unsolved(RG_F32);
  test_unsolved(RG_F64);
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
