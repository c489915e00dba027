/* SPDX-License-Identifier: MIT */
/*
** A stand-in for NVIDIA's management library, libnvidia-ml.so.1, built and used by device_spec.lua:
** what it answers is in the environment, so that a test can hold a device's clock back.
**
**   FAKE_NVML_REASONS   bits of nvmlClocksEventReason..., in decimal
**   FAKE_NVML_MHZ       clock of the multiprocessors
**   FAKE_NVML_CODE      what nvmlInit_v2 returns
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

static int device;

static unsigned long long number(const char *name, unsigned long long otherwise)
{
  const char *text = getenv(name);

  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

SHOWN int nvmlInit_v2(void)
{
  return (int)number("FAKE_NVML_CODE", 0);
}

SHOWN int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
  snprintf(text, bytes, "999.1.2");
  return 0;
}

SHOWN int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
  *out = &device;
  return strlen(bus) == strlen("00000000:00:00.0") ? 0 : 6;
}

SHOWN int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz)
{
  *mhz = kind == 1 ? (unsigned)number("FAKE_NVML_MHZ", 1500) : kind == 2 ? 2600 : 1;
  return d == &device ? 0 : 2;
}

SHOWN int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *bits)
{
  *bits = number("FAKE_NVML_REASONS", 0);
  return d == &device ? 0 : 2;
}

SHOWN int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
  *celsius = sensor == 0 ? 61 : 1;
  return d == &device ? 0 : 2;
}

SHOWN int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatts)
{
  *milliwatts = 345600;
  return d == &device ? 0 : 2;
}

SHOWN int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *milliwatts)
{
  *milliwatts = 700000;
  return d == &device ? 0 : 2;
}
