/* SPDX-License-Identifier: MIT */
/*
** Devices: who brings their memory and their copies.  Kernels are the backend's (op/backend.c).
*/
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static const rg_driver *drivers[RG_DEVICES];
static const rg_device_source *backend;
static _Atomic bool opened[RG_DEVICES]; /* somebody asked for it: others are not woken up */
static rg_modes of_process = { .device = { .vendor = 1, .autotune = 1 } };
_Thread_local const rg_modes *rg_modes_entered;

void rg_driver_register(int32_t device, const rg_driver *driver)
{
  drivers[device] = driver;
}

const rg_driver *rg_driver_that_pins(void)
{
  const rg_driver *found = NULL;

  for (int32_t i = RG_CPU_DEVICE + 1; i < RG_DEVICES && found == NULL; i++) {
    found = drivers[i];
  }
  return found;
}

const rg_driver *rg_driver_of(int32_t device)
{
  return device > RG_CPU_DEVICE && device < RG_DEVICES ? drivers[device] : NULL;
}

void rg_device_source_register(const rg_device_source *source)
{
  backend = source;
}

/* -- Names ------------------------------------------------------------------------ */

static pthread_once_t named = PTHREAD_ONCE_INIT;
static char names[RG_DEVICES][24];

static void name_devices(void)
{
  for (int32_t i = RG_CPU_DEVICE + 1; i < RG_DEVICES; i++) {
    snprintf(names[i], sizeof(names[i]), "%.16s:%d", rg_device_prefix(), i - 1);
  }
}

const char *rg_device_prefix(void)
{
  return backend != NULL ? backend->prefix() : "gpu";
}

const char *rg_device_name(int32_t device)
{
  if (device == RG_CPU_DEVICE) {
    return "cpu";
  }
  if (device < 0 || device >= RG_DEVICES) {
    return "?";
  }
  (void)pthread_once(&named, name_devices);
  return names[device];
}

/* -- Opening and asking ----------------------------------------------------------- */

rg_status rg_device_open(int32_t device)
{
  if (device == RG_CPU_DEVICE) {
    return RG_OK;
  }
  if (rg_driver_of(device) == NULL) {
    if (device < 0 || device >= RG_DEVICES || backend == NULL) {
      return rg_fail(RG_EDEVICE, "device: there is no device %d", device);
    }
    RG_TRY(backend->open(device));
  }
  opened[device] = true;
  return RG_OK;
}

rg_device_modes *rg_device_modes_now(void)
{
  return &of_process.device;
}

rg_modes *rg_modes_of_process(void)
{
  return &of_process;
}

const rg_modes *rg_modes_now(void)
{
  return rg_modes_entered != NULL ? rg_modes_entered : &of_process;
}

bool rg_modes_same(const rg_modes *a, const rg_modes *b)
{
  return a->device.vendor == b->device.vendor && a->device.autotune == b->device.autotune &&
         a->device.deterministic == b->device.deterministic && a->device.tf32 == b->device.tf32 &&
         a->gemm == b->gemm;
}

rg_status rg_device_facts_of(int32_t device, rg_device_facts *out)
{
  if (out == NULL) {
    return rg_fail(RG_EARG, "device: out is NULL");
  }
  RG_TRY(rg_device_open(device));
  if (device != RG_CPU_DEVICE) {
    return rg_driver_of(device)->facts(device, out);
  }
  const rg_machine *machine = rg_machine_facts();

  *out = (rg_device_facts){ .memory_bytes = machine->ram_bytes,
                            .free_bytes = machine->ram_bytes,
                            .cache_bytes = machine->l3_bytes,
                            .units = rg_processors(),
                            .uuid = "cpu" };
  snprintf(out->name, sizeof(out->name), "%s", machine->cpu);
  return RG_OK;
}

rg_status rg_device_state_of(int32_t device, rg_device_state *out)
{
  if (out == NULL) {
    return rg_fail(RG_EARG, "device: out is NULL");
  }
  RG_TRY(rg_device_open(device));
  if (device != RG_CPU_DEVICE) {
    rg_driver_of(device)->state(device, out);
    return RG_OK;
  }
  *out = (rg_device_state){ .clock_mhz = NAN,
                            .memory_mhz = NAN,
                            .celsius = NAN,
                            .watts = NAN,
                            .limit_watts = NAN,
                            .held = -1,
                            .why = "the CPU's state is asked of the host" };
  return RG_OK;
}

rg_status rg_device_libraries_of(int32_t device, int32_t open, rg_device_libraries *out)
{
  if (out == NULL) {
    return rg_fail(RG_EARG, "device: out is NULL");
  }
  RG_TRY(rg_device_open(device));
  *out = (rg_device_libraries){ 0 };
  if (device != RG_CPU_DEVICE) {
    rg_driver_of(device)->libraries(device, open != 0, out);
  }
  return RG_OK;
}

void rg_device_named(int32_t device, const char *name)
{
  const rg_driver *driver =
      device == RG_EVERY_DEVICE ? rg_driver_that_pins() : rg_driver_of(device);

  if (driver != NULL) {
    driver->named(name);
  }
}

static rg_status wait_for(int32_t device)
{
  if (device == RG_EVERY_DEVICE) {
    for (int32_t i = RG_CPU_DEVICE + 1; i < RG_DEVICES; i++) {
      if (drivers[i] != NULL && opened[i]) {
        RG_TRY(drivers[i]->wait(i));
      }
    }
    return RG_OK;
  }
  RG_TRY(rg_device_open(device));
  return device == RG_CPU_DEVICE ? RG_OK : rg_driver_of(device)->wait(device);
}

rg_status rg_device_wait(int32_t device)
{
  int64_t begun = -1;
  rg_status status;

  if (rg_ring_on != 0) {
    begun =
        rg_ring_begin(RG_EVENT_WAIT, device == RG_EVERY_DEVICE ? RG_CPU_DEVICE : device, "wait");
  }
  status = wait_for(device);
  if (begun >= 0) {
    (void)rg_ring_end(begun);
  }
  return status;
}

rg_status rg_device_copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                         int64_t bytes, bool behind)
{
  const rg_driver *driver = rg_driver_of(to_device != RG_CPU_DEVICE ? to_device : from_device);

  if (bytes <= 0) {
    return RG_OK;
  }
  if (driver != NULL) {
    return driver->copy(to_device, to, from_device, from, bytes, behind);
  }
  memmove(to, from, (size_t)bytes);
  return RG_OK;
}
