-- SPDX-License-Identifier: MIT
--- %time: one run, by the clock.

local colour = require 'ridge.show.colour'
local summary = require 'ridge.show.summary'
local unit = require 'ridge.show.unit'

local function signed(bytes)
  return (bytes < 0 and '-' or '+') .. summary.bytes(math.abs(bytes))
end

local function run(session, request)
  local C = require 'ridge.ffi.lib'
  local call = require 'ridge.ffi.call'
  local memory = C.rg_memory_of(0)
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE)) -- what was asked for before is not CODE's
  local live, heap = tonumber(memory.live_bytes), collectgarbage 'count'
  local began = C.rg_clock_ns()
  local n, values = session:values(request.parsed)
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE)) -- a device does it after it was asked
  local ns = tonumber(C.rg_clock_ns() - began)
  local tensors = tonumber(memory.live_bytes) - live
  local lua = math.floor((collectgarbage 'count' - heap) * 1024)
  session:show(n, values, request.rest)
  local parts = { unit.format('ns', ns) }
  if tensors ~= 0 then parts[#parts + 1] = signed(tensors) .. ' of tensors' end
  if math.abs(lua) >= 1024 then parts[#parts + 1] = signed(lua) .. ' of Lua' end
  session.write(colour.paint('dim', table.concat(parts, ' · ')) .. '\n')
end

return {
  time = {
    usage = '%time CODE', takes = 'code', run = run,
    about = 'run CODE once: time, and what it left in memory\n'
      .. 'A first run is slower than later ones; %bench measures properly.',
  },
}
