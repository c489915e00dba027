-- SPDX-License-Identifier: MIT
--- What was measured of a step beside what the model predicts: as rows, as a sweep, in sentences.

local minutes = require 'ridge.measure.minutes'
local model = require 'ridge.scaling.model'
local plain = require 'ridge.plain'
local settings = require 'ridge.scaling.settings'
local worlds = require 'ridge.world'

local M = {}

--- Predict steps from what was measured on one rank, and how ranks crowd a machine on more.
---@param measured table of ridge.scaling.steps.together
---@param one table its second result
---@param net table alpha, beta: {med, lo, hi}
---@param opt table ranks (list), processors, machine, threads; fitted: numbers of ranks above one,
---  measured, which crowding is fitted to
---@return table steps of ridge.scaling.model.band, lo and hi with what other minutes than those of
---  the starts would say, own_lo and own_hi without; efficiencies are of any minutes
---@return number crowding
function M.predict(measured, one, net, opt)
  local step = measured[1].step
  local input = { compute = step.med, buckets = one.buckets, spread = one.spread,
    network = { alpha = net.alpha.med, beta = net.beta.med }, processors = opt.processors,
    threads = opt.threads, machine = opt.machine }
  local list, missed, out = {}, nil, {}
  for i, n in ipairs(opt.fitted or {}) do list[i] = { ranks = n, ns = measured[n].step.med } end
  if #list > 0 then input.crowding, missed = model.crowding(input, list) end
  for i, n in ipairs(opt.ranks) do
    local misfit = #list > 1 and n > 1 and model.misfit({ missed }, opt.fitted,
      math.min(n, opt.machine or n))
    local p = model.band(input, n, { compute = { lo = step.own_lo, hi = step.own_hi },
      alpha = net.alpha, beta = net.beta, misfit = misfit or nil })
    p.own_lo, p.own_hi = p.lo, p.hi
    p.lo, p.hi = minutes.widen(p.ns, p.lo, p.hi, step.sd_minutes)
    out[i] = p
  end
  return out, input.crowding or 0
end

--- How several ranks are said to be measured where their messages are played.
M.SIMULATED = 'SIMULATED'

local COLUMNS = { 'ranks', 'how', 'step_us', 'step_us_lo', 'step_us_hi', 'efficiency',
  'efficiency_lo', 'efficiency_hi', 'bound' }

--- A row for each number that was measured or predicted.
---@param measured table
---@param predicted table
---@param digits integer|nil that numbers are rounded to; all when left out
---@param simulated boolean|nil several ranks were measured over a program that plays a network
---@return table found titles, units, lines
function M.rows(measured, predicted, digits, simulated)
  local lines = {}
  local function us(ns) return ns and ns / 1e3 end
  for n, own in pairs(measured) do
    local s, e = own.step, own.efficiency
    lines[#lines + 1] = { n, n > 1 and simulated and M.SIMULATED or 'measured', us(s.med),
      us(s.lo), us(s.hi), e.med, e.lo, e.hi }
  end
  for _, p in ipairs(predicted) do
    lines[#lines + 1] = { p.ranks, 'model', us(p.ns), us(p.lo), us(p.hi), p.efficiency,
      p.efficiency_lo, p.efficiency_hi, p.bound }
  end
  table.sort(lines, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  for _, line in ipairs(lines) do
    for i = 3, digits and 8 or 0 do
      line[i] = line[i] and tonumber((('%%.%dg'):format(digits):format(line[i])))
    end
  end
  return { titles = COLUMNS, units = {}, lines = lines }
end

--- The rows of all settings, with a column for each of their axes in front.
---@param list table of {setting, measured, predicted}
---@param axes string[]
---@param digits integer|nil that numbers are rounded to; all when left out
---@param simulated boolean|nil several ranks were measured over a program that plays a network
---@return table found titles, units, lines
function M.all(list, axes, digits, simulated)
  local found = { titles = { unpack(axes) }, units = {}, lines = {} }
  for _, title in ipairs(COLUMNS) do found.titles[#found.titles + 1] = title end
  for _, each in ipairs(list) do
    for _, line in ipairs(M.rows(each.measured, each.predicted, digits, simulated).lines) do
      local own = {}
      for i, name in ipairs(axes) do own[i] = each.setting[name] end
      for i = 1, #COLUMNS do own[#axes + i] = line[i] end
      found.lines[#found.lines + 1] = own
    end
  end
  return found
end

local REASON = {
  processors = 'ranks share the processors of a machine',
  bandwidth = 'bytes of gradients take longer than what is computed meanwhile',
  latency = 'the messages themselves take too long, however short they are',
  slowest = 'all wait for the slowest of them',
}

-- What breaks near-linearity first.
local function first_of(each)
  local first = model.breaks(each.predicted)
  local last = each.predicted[#each.predicted]
  local name = settings.name(each.setting)
  local text = first and ('y the model it is no longer near-linear from %d ranks on (%.0f %%): %s.')
    :format(first.ranks, 100 * first.efficiency, REASON[first.bound] or first.bound)
    or ('y the model it stays near-linear up to %s (%.0f %%).'):format(
      plain.count(last.ranks, 'rank'), 100 * last.efficiency)
  return (name == '' and 'B' or name .. ': b') .. text
end

-- What ranks on one machine cost each other.
local function crowded(each)
  return ('computing takes %s longer for each further rank on a machine.'):format(
    plain.percent(each.crowding))
end

--- What people read of it.
---@param list table of {setting, measured, predicted, crowding}
---@param facts table machine, processors, messages, alpha_ns, beta_ns, simulated, fitted (crowding
---  was fitted to the ranks that were measured)
---@return string text
function M.sentences(list, facts)
  local lines = {}
  local inside, n = 0, 0
  for i, each in ipairs(list) do
    lines[i] = first_of(each)
    for _, p in ipairs(each.predicted) do
      local own = p.ranks > 1 and each.measured[p.ranks]
      if own then
        n = n + 1
        -- measured in the same minutes as what goes into the model
        if own.step.med >= p.own_lo and own.step.med <= p.own_hi then inside = inside + 1 end
      end
    end
  end
  if n > 0 then
    lines[#lines + 1] = ("%d of %d steps that were measured on several ranks lie in the model's "
      .. 'band%s'):format(inside, n, not facts.fitted and '.'
      or #list == 1 and ', which was fitted to them: ' .. crowded(list[1])
      or ', which was fitted to them.')
    for _, each in ipairs(facts.fitted and #list > 1 and list or {}) do
      lines[#lines + 1] = settings.name(each.setting) .. ': ' .. crowded(each)
    end
  end
  local sd = list[1].measured[1].step.sd_minutes
  if sd and sd > 0 then
    lines[#lines + 1] = ('Steps hold %s for what other minutes differ by, efficiencies none of it.')
      :format(minutes.percent(sd))
  end
  if facts.simulated then
    lines[#lines + 1] = worlds.SIMULATED .. '.'
  end
  lines[#lines + 1] = ('Messages are %s: %.3g us each, %.3g GB/s; %s of %d %s on a '
    .. 'machine of %d %s.'):format(facts.messages, facts.alpha_ns / 1e3, 1 / facts.beta_ns,
    plain.count(facts.machine, 'rank'), facts.threads, facts.threads == 1 and 'thread' or 'threads',
    facts.processors, facts.processors == 1 and 'processor' or 'processors')
  return table.concat(lines, '\n')
end

--- The sweep that keeps it.
---@param ranks integer[]
---@param axes table values by name of an axis of settings
---@param facts table what it is of
---@param list table of {setting, measured, predicted}
---@return table sweep
function M.sweep(ranks, axes, facts, list)
  local space, names = { ranks = ranks }, {}
  for name, values in pairs(axes) do space[name], names[#names + 1] = values, name end
  return require('ridge.sweep').sweep 'scale' { space = space, args = facts, any_name = true,
    measure = function(p, _, m)
      m.simulated = facts.simulated
      local function put(name, value, lo, hi, opt)
        m:metric(name, value, opt)
        if lo then
          m:metric(name .. '_lo', lo, { how = opt.how, unit = opt.unit })
          m:metric(name .. '_hi', hi, { how = opt.how, unit = opt.unit })
        end
      end
      local each = settings.find(list, names, p)
      local own, step = each.measured[p.ranks], nil
      for _, one in ipairs(each.predicted) do
        if one.ranks == p.ranks then step = one end
      end
      if own then
        local s, e = own.step, own.efficiency
        put('step_us', s.med / 1e3, s.lo and s.lo / 1e3, s.hi and s.hi / 1e3,
          { better = 'lower', unit = 'us' })
        put('efficiency', e.med, e.lo, e.hi, { better = 'higher' })
        if s.sd_minutes then m:metric('between_minutes', s.sd_minutes) end
      end
      if step then
        put('model_us', step.ns / 1e3, step.lo / 1e3, step.hi / 1e3, { how = 'model',
          better = 'lower', unit = 'us' })
        put('model_efficiency', step.efficiency, step.efficiency_lo, step.efficiency_hi,
          { how = 'model', better = 'higher' })
        for part, ns in pairs(step.lost) do
          m:metric('model_lost_' .. part .. '_us', ns / 1e3, { how = 'model', unit = 'us' })
        end
      end
    end }
end

return M
