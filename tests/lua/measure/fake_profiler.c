/* SPDX-License-Identifier: MIT */
/*
** A stand-in for a profiler, built and used by device_spec.lua: NVTX loads it by
** NVTX_INJECTION64_PATH, and it prints each range that begins, and a dot where one ends.
*/
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#define SHOWN __attribute__((visibility("default")))

static int begun(const char *name)
{
  fprintf(stderr, "<%s", name);
  return 0;
}

static int ended(void)
{
  fprintf(stderr, ">\n");
  return 0;
}

SHOWN int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
  const NvtxExportTableCallbacks *table =
      (const NvtxExportTableCallbacks *)get(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable functions = NULL;
  unsigned n = 0;

  if (table == NULL || !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &n)) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)begun;
  *functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)ended;
  return 1;
}
