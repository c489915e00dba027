-- SPDX-License-Identifier: MIT
--- Counters of the processor, of the kernel and of GPUs for a profile; of those that are not there,
--- why.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local unit = require 'ridge.show.unit'

local M = {}

local Counters = {}
Counters.__index = Counters

--- Counters that do not count yet.
---@return table counters
function M.new()
  local slot = ffi.new 'rg_counters *[1]'
  call.check(C.rg_counters_new(slot))
  return setmetatable({ all = ffi.gc(slot[0], C.rg_counters_release) }, Counters)
end

--- Count from now on, or not.
---@param on boolean
function Counters:count(on)
  C.rg_counters_count(self.all, on and 1 or 0)
end

-- Nothing of CUPTI is read; where there is no GPU, that is the reason to tell first.
local function of_gpus()
  local ok, why = require('ridge.device').available()
  if not ok then return why end
  return "ridge does not read CUPTI; ridge.profile_names(true) names calls for NVIDIA's profilers"
end

--- What was counted; then they are closed.
---@return table counts by name, those that there are; shares (by name, of the time that it was
---  counted: below 1 where counters took turns), ipc where cycles and instructions are known
---@return table unavailable by name: why there is none
function Counters:finish()
  local counts, unavailable, one = { shares = {} }, {}, ffi.new 'rg_counter'
  self:count(false)
  for i = 0, C.RG_COUNTER_COUNT - 1 do
    local name = ffi.string(C.rg_counter_name(i))
    call.check(C.rg_counters_read(self.all, i, one))
    if one.value == one.value then
      counts[name], counts.shares[name] = one.value, one.share
    else
      unavailable[name] = ffi.string(one.reason)
    end
  end
  C.rg_counters_release(ffi.gc(self.all, nil))
  self.all = nil
  if counts.instructions and (counts.cycles or 0) > 0 then
    counts.ipc = counts.instructions / counts.cycles
  end
  unavailable.cupti = of_gpus()
  return counts, unavailable
end

-- Names by the reason why they are not there, in the order they are told.
local function reasons_of(p, names)
  local list, by = {}, {}
  for _, name in ipairs(names) do
    local reason = p.unavailable[name]
    if reason and by[reason] then
      by[reason][2] = by[reason][2] .. ', ' .. name
    elseif reason then
      by[reason] = { reason, name }
      list[#list + 1] = by[reason]
    end
  end
  return list
end

--- They as text.
---@param p table profile
---@return string
function M.told(p)
  local rows, names, parts = {}, {}, {}
  for i = 0, C.RG_COUNTER_COUNT - 1 do names[#names + 1] = ffi.string(C.rg_counter_name(i)) end
  for _, name in ipairs(names) do
    local value, share = p.counters[name], p.counters.shares[name]
    if value then
      rows[#rows + 1] = { name, unit.format('count', value), share < 0.999
        and ('counted %.0f %% of the time'):format(100 * share) or '' }
    end
  end
  if #rows > 0 then
    parts[1] = columns.text({ 'counter', 'count', '' }, rows, { right = { [2] = true } })
  end
  local ipc = p.counters.ipc
  if ipc then parts[#parts + 1] = ('%.2f instructions a cycle'):format(ipc) end
  names[#names + 1] = 'cupti'
  for _, found in ipairs(reasons_of(p, names)) do
    parts[#parts + 1] = ('(%s: unavailable: %s)'):format(found[2], found[1])
  end
  return table.concat(parts, '\n')
end

return M
