-- SPDX-License-Identifier: MIT
--- What ridge.smaller found, as a table, a picture and rows of a sweep.

local canonical = require 'ridge.store.canonical'
local claims = require 'ridge.smaller.claims'
local columns = require 'ridge.show.columns'
local gained = require 'ridge.quant.gained'
local guard = require 'ridge.guard'
local log = require 'ridge.sweep.log'
local options = require 'ridge.options'
local versions = require 'ridge.smaller.versions'

local M = {}

local Found = {}
Found.__index = Found

--- What a search has found until now.
---@param opts table of ridge.smaller
---@return table found
function M.new(opts)
  return setmetatable({ points = {}, notes = {}, controls = {}, left = 0, ended = false,
    opts = opts }, Found)
end

--- Add a line.
---@param text string
---@param ... any for string.format
function Found:note(text, ...) self.notes[#self.notes + 1] = text:format(...) end

--- Mark the points that nothing measured beats in bytes, time and accuracy together.
function Found:mark_front()
  for _, p in ipairs(self.points) do
    p.front = p.mb ~= nil
    for _, q in ipairs(p.mb and self.points or {}) do
      if q.mb and q.mb <= p.mb and q.drop <= p.drop and q.speedup >= p.speedup
        and (q.mb < p.mb or q.drop < p.drop or q.speedup > p.speedup) then
        p.front = false
      end
    end
  end
end

-- -- Text -----------------------------------------------------------------------------------------

local function change(d)
  return ('%+.2f [%+.2f, %+.2f]'):format(-100 * d.drop, -100 * d.drop_hi, -100 * d.drop_lo)
end

local function cells_of(found)
  local cells = {}
  for _, p in ipairs(found.points) do
    if p.mb then
      cells[#cells + 1] = { p.chosen and '>' or p.front and '*' or '', p.net, change(p),
        ('%d of %d'):format(p.changed, p.n), p.within, ('%.4f'):format(p.mb),
        ('%.2f'):format(found.points[1].mb / p.mb), ('%.4g'):format(p.ms),
        ('%.2f [%.2f, %.2f]'):format(p.speedup, p.speedup_lo, p.speedup_hi) }
    end
  end
  return cells
end

--- What numbers of a kind are, of all that explains a time.
---@param bits string 'f32', 'dynamic', 'w4', ...
---@return string|nil as ridge.quant.gained takes it
function M.made_of(bits)
  return gained.of { (bits == 'dynamic' or bits == 'static') and 'i8' or bits }
end

local MOST = 6 -- names in a line

-- Nets that gained no time, in a line for each reason.
local function add_slow(lines, found)
  local names, order = {}, {}
  for i, p in ipairs(found.points) do
    local why = i > 1 and p.mb and gained.speed(p.speedup_lo, p.speedup_hi, M.made_of(p.bits))
    if why then
      if not names[why] then names[why], order[#order + 1] = {}, why end
      table.insert(names[why], p.net)
    end
  end
  for _, why in ipairs(order) do
    local list = names[why]
    local more = #list - MOST
    lines[#lines + 1] = ('%s%s: %s'):format(table.concat(list, '; ', 1, math.min(#list, MOST)),
      more > 0 and (' and %d more'):format(more) or '', why)
  end
end

local function add_test(lines, found)
  local a = found.test
  if not a then return end
  lines[#lines + 1] = ('On test, %d rows: original %.2f %% [%.2f, %.2f], chosen %.2f %% [%.2f, '
    .. '%.2f], difference %+.2f %% [%+.2f, %+.2f], McNemar p %.3g, answers changed %d, KL %.3g')
    :format(a.n, 100 * a.original.share, 100 * a.original.lo, 100 * a.original.hi,
    100 * a.quantized.share, 100 * a.quantized.lo, 100 * a.quantized.hi, 100 * a.difference.share,
    100 * a.difference.lo, 100 * a.difference.hi, a.p, a.changed, a.kl)
  lines[#lines + 1] = ('At most %g %% less on test: %s'):format(100 * found.opts.max_drop,
    found.test_verdict)
  for _, c in ipairs(found.controls) do
    local d = c.accuracy.difference
    lines[#lines + 1] = ('Beside %s: %s (%+.2f %% [%+.2f, %+.2f], p %.3g)'):format(c.name,
      c.verdict, 100 * d.share, 100 * d.lo, 100 * d.hi, c.accuracy.p)
  end
end

function Found:__tostring()
  local o = self.opts
  local lines = { ('ridge.smaller: %d nets measured; accuracy on %d rows, time at %d row%s'):format(
    #cells_of(self) - 1, self.points[1].n, self.rows, self.rows == 1 and '' or 's'),
    columns.text({ '', 'net', 'accuracy %', 'changed', ('within %g %%'):format(100 * o.max_drop),
      'MB', 'times smaller', 'ms', 'times as fast' }, cells_of(self)) }
  lines[#lines + 1] = '> chosen, * no other is as good in bytes, time and accuracy at once; '
    .. 'within: by the whole interval, open where it reaches over'
  for _, p in ipairs(self.points) do
    if p.why then lines[#lines + 1] = ('%s infeasible: %s'):format(p.net, p.why) end
  end
  add_slow(lines, self)
  for _, note in ipairs(self.notes) do lines[#lines + 1] = note end
  add_test(lines, self)
  local rows = claims.rows(self.points)
  if #rows > 0 then
    local cells = {}
    for i, r in ipairs(rows) do cells[i] = { r.claim, r.found, r.verdict } end
    lines[#lines + 1] = columns.text({ 'claim', 'found', 'verdict' }, cells)
  end
  return table.concat(lines, '\n')
end

--- Print it.
function Found:print() print(tostring(self)) end

--- What is claimed of smaller nets, with verdicts.
---@return table[] rows {claim, found, verdict}
function Found:claims() return claims.rows(self.points) end

-- -- Pictures and rows --------------------------------------------------------------------------

--- The nets that were measured as a picture: megabytes (or `x = 'ms'`) against accuracy lost.
---@param opt table|nil of ridge.plot's pareto
---@return table figure
function Found:plot(opt)
  local rows = {}
  for _, p in ipairs(self.points) do
    if p.mb then rows[#rows + 1] = p end
  end
  local given = options.over({ x = 'mb', y = 'drop', better_x = 'lower', better_y = 'lower',
    label = 'net' }, opt, 'plot.pareto')
  return require('ridge.plot').draw('pareto', rows, given)
end

local METRICS = { { 'drop', '', -1 }, { 'drop_lo', '' }, { 'drop_hi', '' }, { 'changed', '' },
  { 'kl', 'nat', -1 }, { 'mb', 'MB', -1 }, { 'stored_mb', 'MB', -1 }, { 'ms', 'ms', -1 },
  { 'speedup', '', 1 }, { 'speedup_lo', '' }, { 'speedup_hi', '' } }

local function point_of(p)
  local metrics = {}
  for _, m in ipairs(METRICS) do
    if p[m[1]] then
      metrics[#metrics + 1] = { name = m[1], value = p[m[1]], unit = m[2], better = m[3] }
    end
  end
  return { params = { width = p.width, pattern = p.pattern, sparsity = p.sparsity, bits = p.bits },
    outcome = { state = p.mb and 'ok' or 'infeasible', message = p.why, metrics = metrics,
      timings = {} } }
end

--- Keep the points in a database, as those of a sweep, for ridge top, query, export and plot.
---@param opt table name, recipe (text of what was measured), db (the default one when left out)
---@return table kept name, path
function Found:keep(opt)
  local points, o = {}, self.opts
  for i, p in ipairs(self.points) do points[i] = point_of(p) end
  return log.keep({ name = opt.name, recipe_name = 'smaller', recipe = opt.recipe, protocol = {},
    seed = o.seed, args = { max_drop = o.max_drop, goal = o.goal, rows = self.rows,
      epochs = o.epochs, threads = require('ridge.backend').threads(),
      chosen = self.chosen and self.chosen.net or canonical.null } }, points, { db = opt.db })
end

--- The name of a point.
---@param structure string
---@param bits string
---@return string
function M.name(structure, bits)
  if bits == 'f32' then return structure == 'dense' and 'original' or structure end
  local kind = versions.kind_name(bits)
  return structure == 'dense' and kind or structure .. ', ' .. kind
end

guard.result(Found)

return M
