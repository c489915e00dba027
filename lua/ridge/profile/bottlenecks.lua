-- SPDX-License-Identifier: MIT
--- What takes most of a profile's time, why, and what to try: reasons come from what was measured,
--- and each thing to try names what measures it.

local make = require 'ridge.tensor.make'
local ring = require 'ridge.ring'
local roof = require 'ridge.profile.roof'
local tries = require 'ridge.profile.tries'
local unit = require 'ridge.show.unit'

local M = {}

local LOADING = '(data_loading)'
local SAME = 0.9 -- of an operation's time in one layer: it is that layer's, and not told twice
local MOST = 0.5 -- of the time of something, what is its reason
local FAR = 0.2  -- of a roof: what is below is not bound by it

--- What a call of one element takes here: the part of any call that is not its work.
---@return number ns the median of some
function M.call_ns()
  local x = make.ones(1, { device = 'cpu' })
  local reader = ring.open('op', 256)
  for _ = 1, 64 do local _ = -x end
  local times = {}
  for event in reader:each() do
    if event.end_ns then times[#times + 1] = event.end_ns - event.begin_ns end
  end
  reader:close()
  table.sort(times)
  return times[math.ceil(#times / 2)] or 0
end

-- -- What there is to look at ----------------------------------------------------------------

local function of_layer(layer)
  local calls = 0
  for _, part in ipairs(layer.parts) do calls = calls + part.calls end
  return { what = layer.name, kind = 'layer', ns = layer.device_ns or layer.self_ns,
    share = layer.share, parts = layer.parts, calls = calls, lua_ns = layer.lua_ns }
end

local function of_operation(p, op)
  local parts, layers = {}, {}
  for _, entry in ipairs(p.calls) do
    if entry.op == op.op and entry.path == op.path then parts[#parts + 1] = entry end
  end
  for _, layer in ipairs(p.layers) do
    for _, part in ipairs(layer.module and layer.parts or {}) do
      if part.op == op.op and part.path == op.path then
        layers[layer.name] = (layers[layer.name] or 0) + part.self_ns
      end
    end
  end
  local most = 0
  for _, ns in pairs(layers) do most = math.max(most, ns) end
  return { what = op.path ~= '' and op.op .. ' by ' .. op.path or op.op, kind = 'operation',
    ns = op.device_ns or op.self_ns, share = op.share, parts = parts, calls = op.calls, lua_ns = 0,
    most = most }
end

-- Modules, what is loaded, operations that are not one module's, and what is none of these. A
-- module tells more than its operations; a section less.
local function candidates(p, threshold)
  local list, between = {}, -p.wait_ns
  for _, layer in ipairs(p.layers) do
    if layer.share > threshold and (layer.module or layer.name == LOADING) then
      list[#list + 1] = of_layer(layer)
    else
      between = between + layer.lua_ns
    end
  end
  for _, op in ipairs(p.operations) do
    if op.share > threshold then
      local found = of_operation(p, op)
      if found.most < SAME * op.self_ns then list[#list + 1] = found end
    end
  end
  if p.op_ns == 0 then between = 0 end -- between what?
  local rest = { { 'waiting for a device', p.wait_ns, 'wait' },
    { 'copies between devices', p.copy_ns, 'wait' },
    { 'between operations', between, 'overhead' } }
  for _, of in ipairs(rest) do
    if of[2] > threshold * p.ns then
      list[#list + 1] = { what = of[1], kind = of[3], ns = of[2], share = of[2] / p.ns, parts = {},
        calls = 0, lua_ns = of[2] }
    end
  end
  return list
end

-- -- Why ----------------------------------------------------------------------------------------

local function time(ns) return unit.format('ns', ns) end

-- The reason, and the numbers that say so.
local function reason_of(p, found, roofs, call_ns)
  if found.what == LOADING then
    return 'data', ('%s went by until batches were there'):format(time(found.ns))
  end
  if found.kind == 'wait' then
    return 'waiting', ('the host did nothing else for %s'):format(time(found.ns))
  end
  if found.kind == 'overhead' then
    return 'launch', ('operations took %s, Lua and what it calls between them this'):format(
      time(p.op_ns))
  end
  local calls_ns = math.min(found.calls * call_ns, found.ns - found.lua_ns)
  if found.lua_ns + calls_ns >= MOST * found.ns then
    return 'launch', ('%s between operations, and %d calls of which each takes %s when it has '
      .. 'nothing to do'):format(time(found.lua_ns), found.calls, time(call_ns))
  end
  local compute, memory, share = roof.of(roofs, found.parts)
  if not share then
    return 'unknown', roofs and 'no ceiling of this machine applies to it'
      or 'this machine has no stored ceilings'
  end
  found.of_roof = share
  local reason = share < FAR and 'path' or compute >= memory and 'compute' or 'bandwidth'
  return reason, ('its arithmetic takes %s at best and its bytes %s: %.0f %% of the roof'):format(
    time(compute), time(memory), 100 * share)
end

--- What takes more than a share of the time, the most first.
---@param p table a profile
---@param threshold number share of the time, 0 .. 1
---@param top integer how many at most
---@return table list what, kind (layer, operation, overhead, wait), ns, share, reason (compute,
---  bandwidth, launch, data, waiting, path: far from any roof, unknown), why, of_roof, try (list of
---  { what, measure })
function M.find(p, threshold, top)
  local list = candidates(p, threshold)
  table.sort(list, function(a, b) return a.share > b.share end)
  for i = #list, top + 1, -1 do list[i] = nil end
  if #list == 0 then return list end
  local call_ns, roofs = M.call_ns(), p:roofs()
  for _, found in ipairs(list) do
    found.reason, found.why = reason_of(p, found, roofs, call_ns)
    found.try = tries.of(found.reason)
    found.parts, found.most, found.lua_ns = nil, nil, nil
  end
  return list
end

return M
