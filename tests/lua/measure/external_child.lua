-- SPDX-License-Identifier: MIT
-- A program that is timed from outside (ridge.measure.external): a loop of as many nanoseconds as
-- it is told, by its own clock.  Arguments: ns of a call, and what is wrong with it.
local ffi = require 'ffi'
local bit = require 'bit'

ffi.cdef [[
  typedef struct { long s, ns; } child_time;
  int clock_gettime(int, child_time *);
  long read(int, char *, unsigned long);
  long write(int, const char *, unsigned long);
  int usleep(unsigned int);
]]

local call_ns, wrong = tonumber(arg[1]), arg[2]
local time, buffer = ffi.new 'child_time', ffi.new 'char[1]'

local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) * 1e9 + tonumber(time.ns)
end

local function spin(ns)
  local until_ns = now() + ns
  while now() < until_ns do end
end

local function say(text) ffi.C.write(3, text .. '\n', #text + 1) end

local function line()
  local parts = {}
  while ffi.C.read(3, buffer, 1) == 1 do
    local c = ffi.string(buffer, 1)
    if c == '\n' then return table.concat(parts) end
    parts[#parts + 1] = c
  end
end

-- the header of a .npy file of f32 [n]
local function npy(path, values)
  local header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }"):format(#values)
  header = header .. (' '):rep((64 - (10 + #header + 1) % 64) % 64) .. '\n'
  local file = assert(io.open(path, 'wb'))
  file:write('\147NUMPY\1\0', string.char(bit.band(#header, 255), bit.rshift(#header, 8)), header,
    ffi.string(ffi.new('float[?]', #values, values), 4 * #values))
  file:close()
end

if wrong == 'silent' then ffi.C.usleep(3e6) end
if wrong == 'dies' then os.exit(7) end
say(wrong == 'greets' and 'hello' or 'ready a loop of ' .. call_ns .. ' ns')
for order in line do
  local k, n = order:match '^run (%d+) (%d+)$'
  local folder = order:match '^results (.*)$'
  if wrong == 'dies later' and k then os.exit(3) end
  if wrong == 'fails' and k then
    say 'error no such node'
  elseif wrong == 'boasts' and k then
    say('ran ' .. ('1e12 '):rep(n))
  elseif wrong == 'short' and k then
    say 'ran'
  elseif k then
    local times = {}
    for i = 1, n do
      local began = now()
      for _ = 1, k do spin(call_ns) end
      times[i] = ('%.0f'):format(now() - began)
    end
    say('ran ' .. table.concat(times, ' '))
    if wrong == 'spins' then spin(5e6) end
  elseif folder and wrong == 'quiet' then
    say 'none'
  elseif folder then
    npy(folder .. '/1.npy', wrong == 'other' and { 1, 2, 4 } or { 1, 2, 3 })
    say 'wrote 1'
  end
end
