/* SPDX-License-Identifier: MIT */
/*
** Opening a GPU: the driver is looked for first, so that without one the answer is there in less
** than a millisecond and no library was loaded; then the plugin beside this program.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/plugin.h"
#include "op/list.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static int32_t n_devices;
static const char *prefix = "cuda"; /* unless a plugin that was named has another */
static char why[512];               /* there is none */

/* -- The driver ------------------------------------------------------------------------ */

typedef int driver_init(unsigned flags);
typedef int driver_count(int *count);
typedef int driver_version(int *version);

/* How many GPUs the driver has; a sentence in why, and 0, where it has none. */
static int32_t probe(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  int count = 0;
  int version = 0;
  int code;

  if (driver == NULL) {
    snprintf(why, sizeof(why), "there is no CUDA driver here (libcuda.so.1)");
    return 0;
  }
  driver_init *init = (driver_init *)(uintptr_t)dlsym(driver, "cuInit");
  driver_count *count_of = (driver_count *)(uintptr_t)dlsym(driver, "cuDeviceGetCount");
  driver_version *version_of = (driver_version *)(uintptr_t)dlsym(driver, "cuDriverGetVersion");

  if (init == NULL || count_of == NULL || version_of == NULL) {
    snprintf(why, sizeof(why), "libcuda.so.1 is no CUDA driver: it lacks cuInit or its kind");
    return 0;
  }
  (void)version_of(&version);
  code = init(0);
  if (code == 0) {
    code = count_of(&count);
  }
  if (code != 0 || count == 0) {
    snprintf(why, sizeof(why), "the CUDA driver (version %d.%d) finds no GPU (code %d)",
             version / 1000, version % 1000 / 10, code);
    return 0;
  }
  return count;
}

/* -- The plugin ------------------------------------------------------------------------ */

/* The folder that the file with this code is in, behind links, then the plugin's name. */
static void beside(char *path, size_t size)
{
  Dl_info info;
  const char *slash;
  char *whole;

  snprintf(path, size, "libridge_gpu.so");
  if (dladdr(&rg_gpu_source, &info) == 0 || info.dli_fname == NULL) {
    return;
  }
  /* without a slash it is a program that was found on the PATH */
  whole = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL);
  slash = whole != NULL ? strrchr(whole, '/') : NULL;
  if (slash != NULL) {
    snprintf(path, size, "%.*s/libridge_gpu.so", (int)(slash - whole), whole);
  }
  free(whole);
}

static const rg_device_modes *modes(void)
{
  return &rg_modes_now()->device;
}

static int32_t load(const char *path, bool prefix_is_its_own)
{
  const rg_gpu_host host = { .abi = RG_GPU_ABI,
                             .core_abi = RG_ABI,
                             .n_ops = RG_OP_COUNT,
                             .poison = rg_alloc_poisons(),
                             .fail = (rg_fail),
                             .modes = modes,
                             .output_new = rg_output_new,
                             .output_write = rg_output_write,
                             .output_finish = rg_output_finish,
                             .output_release = rg_output_release };
  rg_gpu_offer offer = { 0 };
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  rg_gpu_entry *entry;

  if (library == NULL) {
    snprintf(why, sizeof(why), "the GPU's kernels are not there: %s", dlerror());
    return 0;
  }
  entry = (rg_gpu_entry *)(uintptr_t)dlsym(library, "rg_gpu_plugin");
  if (entry == NULL) {
    snprintf(why, sizeof(why), "%s has no function rg_gpu_plugin", path);
    return 0;
  }
  if (entry(&host, &offer) != RG_OK) {
    snprintf(why, sizeof(why), "%s", rg_error_message());
    return 0;
  }
  if (prefix_is_its_own) {
    prefix = offer.prefix;
  }
  for (int32_t i = 1; i <= offer.count && i < RG_DEVICES; i++) {
    rg_backend_register(i, offer.backend);
    rg_driver_register(i, offer.driver);
  }
  return (int32_t)rg_min_i64(offer.count, RG_DEVICES - 1);
}

/* RIDGE_GPU names another plugin, which needs no driver: the simulator of the tests. */
static void open_all(void)
{
  const char *given = getenv("RIDGE_GPU");
  char path[4096];

  if (given != NULL && given[0] != '\0') {
    n_devices = load(given, true);
  } else if (probe() > 0) {
    beside(path, sizeof(path));
    n_devices = load(path, false);
  }
}

/* How many there are. */
static int32_t opened(void)
{
  int32_t n;

  pthread_mutex_lock(&lock);
  if (!tried) {
    open_all();
    tried = true;
  }
  n = n_devices;
  pthread_mutex_unlock(&lock);
  return n;
}

static rg_status open_device(int32_t device)
{
  int32_t n = opened();

  if (n == 0) {
    return rg_fail(RG_EDEVICE, "%s: %s", rg_device_name(device), why);
  }
  if (device > n) {
    return rg_fail(RG_EDEVICE, "%s: there %s %d GPU%s", rg_device_name(device),
                   n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
  }
  return RG_OK;
}

/* Without RIDGE_GPU the answer needs neither a driver nor a library. */
static const char *prefix_of(void)
{
  const char *given = getenv("RIDGE_GPU");

  if (given != NULL && given[0] != '\0') {
    (void)opened();
  }
  return prefix;
}

const rg_device_source rg_gpu_source = { .prefix = prefix_of, .open = open_device };
