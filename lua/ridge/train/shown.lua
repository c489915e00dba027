-- SPDX-License-Identifier: MIT
--- A trainer and what it has gone through, as they show: the losses as bars, the epochs as rows.

local colour = require 'ridge.show.colour'
local chart = require 'ridge.show.chart'
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local plain = require 'ridge.plain'
local summary = require 'ridge.show.summary'
local unit = require 'ridge.show.unit'
local value = require 'ridge.show.value'
local worlds = require 'ridge.world'

local M = {}

local BARS = 24
local EPOCHS = 8 -- rows of a table, the last ones

local function number(x) return ('%.4g'):format(x) end

-- How a column went: its first value, bars, its last one, and how many are none of these: a
-- training that has diverged ends in them. nil where there is no number.
local function course(rows, name)
  local list, odd = {}, 0
  for _, row in ipairs(rows) do
    local x = row[name]
    if type(x) == 'number' and x - x == 0 then
      list[#list + 1] = x
    elseif type(x) == 'number' then
      odd = odd + 1
    end
  end
  local more = odd > 0 and (', %d not finite'):format(odd) or ''
  if #list == 0 then return odd > 0 and (name .. ':' .. more:sub(2)) or nil end
  if #list == 1 then return ('%s %s%s'):format(name, number(list[1]), more) end
  local bars, low, high = {}, math.huge, -math.huge
  for _, x in ipairs(list) do low, high = math.min(low, x), math.max(high, x) end
  for i, x in ipairs(chart.thin(list, BARS)) do
    -- halves: the difference of two losses may be beyond what a double holds
    bars[i] = high > low and 0.1 + 0.9 * (x / 2 - low / 2) / (high / 2 - low / 2) or 0.5
  end
  return ('%s %s %s %s%s'):format(name, number(list[1]), summary.spark(bars), number(list[#list]),
    more)
end

-- -- Histories ------------------------------------------------------------------------------------

-- Columns of an epoch: field, head, how it is written.
local EPOCH = { { 'epoch', 'epoch' }, { 'loss', 'loss', number }, { 'val_loss', 'test', number },
  { 'accuracy', 'accuracy', function(x) return ('%.4f'):format(x) end },
  { 'lr', 'lr', function(x) return ('%.3g'):format(x) end },
  { 'rows_per_s', 'rows/s', function(x) return unit.number(x) end },
  { 'peak_bytes', 'peak', summary.bytes },
  { 'seconds', 'time', function(x) return unit.format('ns', 1e9 * x) end }, { 'flags', 'flags' } }
local STEP = { { 'step', 'step' }, { 'loss', 'loss', number },
  { 'gradient_norm', 'gradient', number }, { 'clipped_norm', 'clipped', number },
  { 'action', 'action' }, { 'score', 'score', number } }

local function table_of(rows, kinds)
  local kept, heads, right = {}, {}, {}
  local first = math.max(1, #rows - EPOCHS + 1)
  for _, kind in ipairs(kinds) do
    local there = false
    for i = first, #rows do there = there or rows[i][kind[1]] ~= nil end
    if there then
      kept[#kept + 1], heads[#heads + 1] = kind, kind[2]
      right[#kept] = kind[1] ~= 'action' and kind[1] ~= 'flags'
    end
  end
  local cells = {}
  for i = first, #rows do
    local line = {}
    for k, kind in ipairs(kept) do
      local x = rows[i][kind[1]]
      if type(x) == 'number' and kind[3] then x = kind[3](x) end
      line[k] = x
    end
    cells[#cells + 1] = line
  end
  return columns.text(heads, cells, { right = right }), first - 1
end

-- The curve of rows as a picture, which says where a program played the network.
local function picture(rows)
  local flags
  for _, row in ipairs(rows) do flags = flags or row.flags end
  return require('ridge.plot').draw('training', rows, { y = 'loss', device = flags
    and 'simulated messages, whose times say nothing of any network' or nil }):png()
end

-- kinds: of its columns; what: a row of it
local function history(kinds, what)
  local function line(rows)
    local text = course(rows, 'loss')
    return plain.count(#rows, what) .. (text and ': ' .. text or '')
  end
  return value.class('history', { line = line, box = function(rows)
    if #rows == 0 then return colour.paint('dim', ('no %s yet'):format(what)) end
    local text, before = table_of(rows, kinds)
    local head = { line(rows) }
    local accuracy = course(rows, 'accuracy')
    if accuracy then head[2] = accuracy end
    return table.concat(head, '   ') .. '\n' .. text
      .. (before > 0 and colour.paint('dim', ('\n(%s before)'):format(plain.count(before, what)))
        or '')
  end, png = kinds == EPOCH and function(rows)
    return picture(M.curve(rows))
  end or function(rows) return require('ridge.plot').draw('stability', rows, {}):png() end })
end

local EPOCHS_OF, STEPS_OF = history(EPOCH, 'epoch'), history(STEP, 'step')

--- A history of epochs as rows over the seconds trained, for a picture.
---@param rows table
---@return table rows
function M.curve(rows)
  local out, at = {}, 0
  for i, row in ipairs(rows) do
    at = at + (row.seconds or 0)
    out[i] = { seconds = at, loss = row.loss, flags = row.flags }
  end
  return out
end

--- Let the history of a trainer show itself.
---@param rows table
---@return table rows
function M.history(rows) return setmetatable(rows, EPOCHS_OF) end

--- The same for that of steps, as ridge.Stability keeps it.
---@param rows table
---@return table rows
function M.steps(rows) return setmetatable(rows, STEPS_OF) end

-- -- Trainers -------------------------------------------------------------------------------------

local function first_line(x) return (tostring(x):match '[^\n]*') end

-- What is switched on, of what is off unless it is asked for.
local function switched(config)
  local words = {}
  local function add(text, ...) words[#words + 1] = text:format(...) end
  if config.level then add('level %s', config.level) end
  if config.mixed_precision then add('mixed precision in %s', config.mixed_precision) end
  if config.compile_enabled then add(plain.count(config.plans, 'plan')) end
  if config.accumulate ~= 1 then add('%s batches a step', config.accumulate) end
  if config.parts ~= 1 then add('each batch in %s parts', config.parts) end
  if config.clip then add('clipped at %s', config.clip) end
  if config.stability then add('%s', config.stability) end
  return #words > 0 and table.concat(words, ', ') or nil
end

local function line(t)
  return ('trainer of %s, epoch %d'):format(first_line(t.model), t.epoch)
end

local function box(t)
  local status, s = t:status(), t:summary()
  local lines = { ('trainer of %s'):format(first_line(t.model)),
    ('with %s'):format(first_line(t.optimizer)) }
  if status.steps == 0 then
    lines[#lines + 1] = 'no step was taken yet'
  else
    lines[#lines + 1] = ('%s in %s, %s: %s a step   best loss %s'):format(
      plain.count(status.steps, 'step'), plain.count(status.epoch, 'epoch'),
      unit.format('ns', 1e9 * s.total_time), unit.format('ns', 1e9 * s.average_step_time),
      status.best < math.huge and number(status.best) or 'not known')
  end
  if s.flags then lines[#lines + 1] = worlds.SIMULATED end
  lines[#lines + 1] = course(#t.history > 1 and t.history or t.curve, 'loss')
  local last
  for _, row in ipairs(t.history) do last = row.accuracy and row or last end
  if last then
    lines[#lines + 1] = ('accuracy %.4f%s   loss of the test data %s'):format(last.accuracy,
      last.accuracy_lo and (' [%.4f .. %.4f]'):format(last.accuracy_lo, last.accuracy_hi) or '',
      number(last.val_loss))
  end
  local on = switched(status.config)
  if on then lines[#lines + 1] = columns.wrap(on, columns.terminal()) end
  lines[#lines + 1] = colour.paint('dim', '_:report() says all of it, _.history its epochs')
  return table.concat(lines, '\n')
end

--- Let the trainers of a class show themselves.
---@param class table
function M.trainers(class)
  value.ways(class, { line = line, box = box, png = function(t) return picture(t.curve) end })
  class.__tostring = guard.text(class.__tostring)
end

return M
