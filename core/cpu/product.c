/* SPDX-License-Identifier: MIT */
/*
** Which way a product takes: the choice between own kernels, oneDNN and OpenBLAS.
*/
#include <stdlib.h>
#include <string.h>

#include "cpu/product.h"

/* -- The user's choice ---------------------------------------------------------------------- */

enum { PATH_AUTO, PATH_ONEDNN, PATH_OPENBLAS, PATH_OWN, PATH_COUNT };

static const char *const path_names[PATH_COUNT] = { "auto", "onednn", "openblas", "own" };
static int chosen;

rg_status rg_set_gemm_path(const char *path)
{
  for (int i = 0; path != NULL && i < PATH_COUNT; i++) {
    if (strcmp(path, path_names[i]) == 0) {
      chosen = i;
      return RG_OK;
    }
  }
  return rg_fail(RG_EARG, "no way for products called \"%s\" (auto, onednn, openblas, own)",
                 path == NULL ? "(null)" : path);
}

const char *rg_gemm_path(void)
{
  return path_names[chosen];
}

__attribute__((constructor)) static void read_environment(void)
{
  const char *path = getenv("RIDGE_GEMM");

  if (path != NULL && rg_set_gemm_path(path) != RG_OK) {
    chosen = PATH_AUTO; /* host.c reports what the environment got wrong */
  }
}

/* -- Running -------------------------------------------------------------------------------------- */

rg_status rg_product_run(const rg_product *p, const char **path)
{
  if (path != NULL) {
    *path = "openblas";
  }
  return rg_product_blas(p);
}
