-- SPDX-License-Identifier: MIT
--- Alarms (F10 to F12): above a mark, memory that is dead is collected, what is cached is given
--- back, and one line says what that freed.
--
-- They are looked at where the collector's debt is paid: once for every few megabytes that are
-- allocated, never in the middle of a call.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local guard = require 'ridge.guard'
local ref = require 'ridge.ffi.ref'
local system = require 'ridge.memory.system'

local M = {}

local EVERY_S = 0.1 -- the system is asked no more often
local MORE = 1.05 -- where acting did not suffice, it is tried again when so much more is there

local Alarm = { __name = 'Alarm' }
Alarm.__index = Alarm

local alarms = {} -- those that are set
local acting = false -- what is done about one rings none

local function mb(bytes) return ('%.1f MB'):format(bytes / 2 ^ 20) end

-- What is above the mark, in the alarm's unit: bytes, or percent of the system's memory.
local function level(self)
  if self.system_percent then return (system.percent()) end
  return tonumber(C.rg_memory_of(self.number).reserved_bytes)
end

local function mark(self) return self.system_percent or self.bytes end

local function shown(self, value)
  return self.system_percent and ('%.1f %% of the system\'s memory'):format(value)
    or mb(value) .. ' in use or cached'
end

-- A line of the user's is lost where it raises, but neither the alarm nor what was being computed.
local function safely(self, what, f, ...)
  local ok, err = pcall(f, ...)
  if not ok and blame.is_error(err) and err.code == 'EINTR' then error(err, 0) end
  if not ok then
    self.failed = tostring(err)
    if not self.told_failure then
      self.told_failure = true
      io.stderr:write(('memory.alarm: %s failed: %s\n'):format(what, tostring(err)))
    end
  end
end

local function say(self, line) safely(self, 'say', self.say, line) end

-- Warn once of what was freed, and once of what could not be.
local function warn(self, before, after, freed)
  local still = after and after > mark(self)
  local key = still and 'told_full' or 'told'
  if self[key] then return end
  self[key] = true
  say(self, ('memory: %s has %s, above the alarm at %s; collected and trimmed, which freed %s%s')
    :format(self.system_percent and 'the machine' or self.device, shown(self, before),
      self.system_percent and ('%g %%'):format(self.system_percent) or mb(self.bytes), mb(freed),
      still and (': %s stay, %s of them live'):format(shown(self, after),
        mb(tonumber(C.rg_memory_of(self.number).live_bytes))) or ''))
end

-- Collect and trim, and where that does not suffice without what compiled code holds; bytes that
-- went back to the system.
local function relieve(self)
  local m = C.rg_memory_of(self.number)
  local before = tonumber(m.reserved_bytes)
  ref.collect()
  C.rg_memory_trim(self.number)
  if self.system_percent or level(self) > mark(self) then
    ref.collect_all()
    C.rg_memory_trim(self.number)
  end
  return math.max(0, before - tonumber(m.reserved_bytes))
end

local function ring(self, now)
  local freed = relieve(self)
  local after = level(self)
  self.rang, self.freed = self.rang + 1, self.freed + freed
  self.stuck_at = after and after > mark(self) and after or nil
  warn(self, now, after, freed)
  if self.act then
    safely(self, 'act', self.act, { device = self.device, before = now, after = after,
      freed = freed, mark = mark(self), alarm = self })
  end
  return freed
end

local function finish(ok, ...)
  acting = false
  if not ok then error((...), 0) end
  return ...
end

--- Look whether it has to ring, as every few megabytes do by themselves.
---@return number|nil freed bytes given back; nil: it did not ring
function Alarm:check()
  if acting or not self.set then return nil end
  local now = level(self)
  if not now then return nil end -- it cannot be read any more
  if now <= mark(self) then
    self.stuck_at = nil
    return nil
  end
  if self.stuck_at and now < self.stuck_at * MORE then return nil end
  acting = true
  return finish(pcall(ring, self, now))
end

-- Called where debt is paid.
local function look()
  local at = tonumber(C.rg_clock_ns()) / 1e9
  for i = 1, #alarms do
    local alarm = alarms[i]
    if alarm and (not alarm.system_percent or at - (alarm.asked_at or -1) >= EVERY_S) then
      alarm.asked_at = at
      alarm:check()
    end
  end
end

--- Take it away.
---@return boolean was it set?
function Alarm:remove()
  for i, alarm in ipairs(alarms) do
    if alarm == self then
      table.remove(alarms, i)
      self.set = false
      if #alarms == 0 then call.watch(nil) end
      return true
    end
  end
  return false
end

Alarm.__tostring = function(self)
  return ('alarm at %s: rang %d time%s, freed %s%s'):format(
    self.system_percent and ('%g %% of the system\'s memory'):format(self.system_percent)
    or ('%s on %s'):format(mb(self.bytes), self.device), self.rang, self.rang == 1 and '' or 's',
    mb(self.freed), self.set and '' or '; removed')
end
Alarm.__tostring = guard.text(Alarm.__tostring)

guard.all(Alarm)

--- What the options of memory.alarm may be.
M.SPEC = {
  device = { 'string', default = 'cpu', doc = "whose memory it is: 'cpu', 'cuda:0' ..., 'pinned'" },
  share = { 'number', min = 1e-6, max = 1,
    doc = "of the device's memory, or of its limit, in place of megabytes" },
  system_percent = { 'number', min = 1e-6, max = 100,
    doc = "of the machine's memory that all programs use, in place of megabytes" },
  say = { 'function', doc = 'called with the line that warns; it goes to stderr when left out' },
  act = { 'function', doc = 'called each time it rang, with { device, before, after, freed, '
    .. 'mark }' },
}

local function bytes_of(megabytes, o, number)
  if o.share then
    local limit = tonumber(C.rg_memory_of(number).limit_bytes)
    if limit > 0 then return o.share * limit end
    local facts = ffi.new 'rg_device_facts'
    call.check(C.rg_device_facts_of(number == C.RG_PINNED and 0 or number, facts), 'memory.alarm')
    return o.share * tonumber(facts.memory_bytes)
  end
  if type(megabytes) ~= 'number' or not (megabytes > 0 and megabytes <= 2 ^ 43) then -- nan is none
    blame.raise(('memory.alarm: megabytes are a finite number above 0, up to 2^43, got %s; '
      .. 'memory.alarms() lists what is set, and alarm:remove() takes it away')
      :format(blame.show(megabytes)), 'EARG')
  end
  return megabytes * 2 ^ 20
end

--- Set one.
---@param megabytes number|nil
---@param o table checked options
---@param number number of the device
---@return table alarm
function M.set(megabytes, o, number)
  local given = (megabytes ~= nil and 1 or 0) + (o.share and 1 or 0)
    + (o.system_percent and 1 or 0)
  if given ~= 1 then
    blame.raise(('memory.alarm: one of megabytes, share and system_percent says where it rings, '
      .. 'got %d of them'):format(given), 'EARG')
  end
  local alarm = { device = o.device, number = number, share = o.share, act = o.act, rang = 0,
    freed = 0, set = true, say = o.say or function(line) io.stderr:write(line, '\n') end }
  if o.system_percent then
    local _, why = system.percent()
    if why then
      blame.raise('memory.alarm: system_percent cannot be watched: ' .. why, 'EIO')
    end
    alarm.system_percent = o.system_percent
  else
    alarm.bytes = bytes_of(megabytes, o, number)
    alarm.mb = alarm.bytes / 2 ^ 20
  end
  alarms[#alarms + 1] = setmetatable(alarm, Alarm)
  call.watch(look)
  return alarm
end

--- Those that are set.
---@return table list
function M.list()
  local list = {}
  for i, alarm in ipairs(alarms) do list[i] = alarm end
  return list
end

return M
