/* SPDX-License-Identifier: MIT */
/*
** Clocks, temperature, power and what holds the clock back, from NVIDIA's management library (NVML,
** libnvidia-ml.so.1).  It comes with the driver, so it is opened when it is first asked for, and a
** machine without it only hides these signals.
**
** The toolkit brings no header of it here: what is used is declared below by its documentation
** (docs.nvidia.com/deploy/nvml-api: device queries, clocks event reasons).
*/
#include <dlfcn.h>
#include <math.h>
#include <mutex>
#include <stdio.h>

#include "gpu/nvml.cuh"

/* -- The library's interface ------------------------------------------------------------------- */

typedef struct nvmlDevice_st *nvml_device;
typedef int nvml_return; /* 0: success */

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };

/* nvmlClocksEventReason..., once called nvmlClocksThrottleReason... */
enum {
  REASON_IDLE = 0x1,
  REASON_APPLICATION_CLOCKS = 0x2,
  REASON_SW_POWER_CAP = 0x4,
  REASON_HW_SLOWDOWN = 0x8,
  REASON_SYNC_BOOST = 0x10,
  REASON_SW_THERMAL = 0x20,
  REASON_HW_THERMAL = 0x40,
  REASON_HW_POWER_BRAKE = 0x80,
  REASON_DISPLAY_CLOCKS = 0x100
};

struct nvml_library {
  nvml_return (*init)(void);
  nvml_return (*by_bus)(const char *bus, nvml_device *out);
  nvml_return (*clock)(nvml_device device, int kind, unsigned *mhz);
  nvml_return (*reasons)(nvml_device device, unsigned long long *bits);
  nvml_return (*temperature)(nvml_device device, int sensor, unsigned *celsius);
  nvml_return (*power)(nvml_device device, unsigned *milliwatts);
  nvml_return (*limit)(nvml_device device, unsigned *milliwatts);
  nvml_return (*version)(char *text, unsigned bytes);
};

static nvml_library nvml;
static nvml_device devices[RG_DEVICES];
static bool asked[RG_DEVICES];
static bool opened;
static char why[96];
static char driver_version[32];
static std::mutex lock;

/* -- Opening ----------------------------------------------------------------------------------- */

template <class F> static bool find(void *library, const char *name, F **out)
{
  *out = (F *)dlsym(library, name);
  return *out != NULL;
}

/* The functions; those that some drivers lack stay NULL. */
static bool find_all(void *library)
{
  if (!find(library, "nvmlDeviceGetCurrentClocksEventReasons", &nvml.reasons)) {
    (void)find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.reasons);
  }
  (void)find(library, "nvmlDeviceGetClockInfo", &nvml.clock);
  (void)find(library, "nvmlDeviceGetTemperature", &nvml.temperature);
  (void)find(library, "nvmlDeviceGetPowerUsage", &nvml.power);
  (void)find(library, "nvmlDeviceGetEnforcedPowerLimit", &nvml.limit);
  (void)find(library, "nvmlSystemGetDriverVersion", &nvml.version);
  return find(library, "nvmlInit_v2", &nvml.init) &&
         find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus);
}

static void open_library(void)
{
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  nvml_return code;

  opened = true;
  if (library == NULL) {
    snprintf(why, sizeof(why), "there is no libnvidia-ml.so.1 here");
    return;
  }
  if (!find_all(library)) {
    snprintf(why, sizeof(why), "libnvidia-ml.so.1 lacks nvmlInit_v2 or its kind");
    return;
  }
  code = nvml.init();
  if (code != 0) {
    snprintf(why, sizeof(why), "libnvidia-ml.so.1 does not start (code %d)", code);
    return;
  }
  if (nvml.version == NULL || nvml.version(driver_version, sizeof(driver_version)) != 0) {
    driver_version[0] = '\0';
  }
}

/* The library's name of a device: by its place on the bus, since CUDA_VISIBLE_DEVICES numbers them
** again for CUDA alone. */
static nvml_device device_of(int32_t device)
{
  std::lock_guard<std::mutex> held(lock);
  cudaDeviceProp p;
  char bus[32];

  if (!opened) {
    open_library();
  }
  if (why[0] != '\0' || asked[device]) {
    return devices[device];
  }
  asked[device] = true;
  if (cudaGetDeviceProperties(&p, device - 1) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  snprintf(bus, sizeof(bus), "%08X:%02X:%02X.0", (unsigned)p.pciDomainID, (unsigned)p.pciBusID,
           (unsigned)p.pciDeviceID);
  if (nvml.by_bus(bus, &devices[device]) != 0) {
    devices[device] = NULL;
  }
  return devices[device];
}

/* -- Asking ------------------------------------------------------------------------------------ */

static int32_t held_by(unsigned long long bits)
{
  const unsigned long long known = REASON_IDLE | REASON_APPLICATION_CLOCKS | REASON_SW_POWER_CAP |
                                   REASON_HW_SLOWDOWN | REASON_SYNC_BOOST | REASON_SW_THERMAL |
                                   REASON_HW_THERMAL | REASON_HW_POWER_BRAKE |
                                   REASON_DISPLAY_CLOCKS;
  int32_t out = 0;

  out |= (bits & REASON_IDLE) != 0 ? RG_HELD_IDLE : 0;
  out |= (bits & REASON_SW_POWER_CAP) != 0 ? RG_HELD_POWER : 0;
  out |= (bits & (REASON_SW_THERMAL | REASON_HW_THERMAL)) != 0 ? RG_HELD_HEAT : 0;
  out |= (bits & REASON_HW_SLOWDOWN) != 0 ? RG_HELD_HARDWARE : 0;
  out |= (bits & REASON_HW_POWER_BRAKE) != 0 ? RG_HELD_BRAKE : 0;
  out |= (bits & (REASON_APPLICATION_CLOCKS | REASON_SYNC_BOOST | REASON_DISPLAY_CLOCKS)) != 0
             ? RG_HELD_SETTING
             : 0;
  out |= (bits & ~known) != 0 ? RG_HELD_OTHER : 0;
  return out;
}

void rg_gpu_state(int32_t device, rg_device_state *out)
{
  nvml_device d = device_of(device);
  unsigned long long bits = 0;
  unsigned value = 0;

  *out = rg_device_state{};
  out->clock_mhz = out->memory_mhz = out->celsius = out->watts = out->limit_watts = NAN;
  out->held = -1;
  if (d == NULL) {
    snprintf(out->why, sizeof(out->why), "%s",
             why[0] != '\0' ? why : "libnvidia-ml.so.1 does not know this device");
    return;
  }
  snprintf(out->driver, sizeof(out->driver), "%s", driver_version);
  if (nvml.clock != NULL && nvml.clock(d, NVML_CLOCK_SM, &value) == 0) {
    out->clock_mhz = value;
  }
  if (nvml.clock != NULL && nvml.clock(d, NVML_CLOCK_MEM, &value) == 0) {
    out->memory_mhz = value;
  }
  if (nvml.temperature != NULL && nvml.temperature(d, NVML_TEMPERATURE_GPU, &value) == 0) {
    out->celsius = value;
  }
  if (nvml.power != NULL && nvml.power(d, &value) == 0) {
    out->watts = value / 1e3;
  }
  if (nvml.limit != NULL && nvml.limit(d, &value) == 0) {
    out->limit_watts = value / 1e3;
  }
  if (nvml.reasons != NULL && nvml.reasons(d, &bits) == 0) {
    out->held = held_by(bits);
  }
}
