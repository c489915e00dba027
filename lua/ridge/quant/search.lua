-- SPDX-License-Identifier: MIT
--- Bits for each layer: as few bytes as an accuracy allows.

local accuracy = require 'ridge.quant.accuracy'
local batches = require 'ridge.quant.batches'
local faster = require 'ridge.quant.faster'
local gained = require 'ridge.quant.gained'
local guard = require 'ridge.guard'
local candidates = require 'ridge.quant.candidates'
local chain = require 'ridge.quant.chain'
local columns = require 'ridge.show.columns'
local held = require 'ridge.quant.held'
local nets = require 'ridge.quant.nets'
local journal_of = require 'ridge.quant.journal'
local options = require 'ridge.options'
local part = require 'ridge.sweep.part'
local report = require 'ridge.quant.report'
local rows_of = require('ridge.quant.dynamic').rows_of
local services = require('ridge.measure.native').services

local M = {}

local WHAT = 'quant.search'

local SPEC = {
  validate = { 'table', required = true, doc = 'a loader of (x, labels): what is chosen on' },
  max_drop = { 'number', default = 0.005, min = 0, max = 1,
    doc = 'of accuracy on it, as a share of rows' },
  calibrate = { 'table', doc = 'a loader of inputs, for ranges and for rounding' },
  batches = { 'integer', default = 100, min = 1, doc = 'of calibrate, at most' },
  test = { 'table',
    doc = 'a loader of (x, labels) for what was chosen; refused where rows are of the others' },
  kinds = { 'table', doc = "what layers may be, { 'i8', 'w4', 'w3', 'w2' } when left out" },
  rows = { 'number|boolean', default = 1,
    doc = 'of validate, with which what was chosen is timed beside the net; false: it is not' },
  budget = { 'number|string', default = '10m', doc = "seconds, or '90s', '15m', '1h30m'" },
  folder = { 'string', doc = 'where what is known is kept: the same call goes on from there' },
}

-- -- Steps ----------------------------------------------------------------------------------------

-- Candidates as steps, the least harm for a byte first; each knows what its layer alone did.
local function steps_of(net, list, opts, over, journal)
  local steps = {}
  for _, candidate in ipairs(list) do
    local key = ('alone %s %s'):format(candidate.kind, candidate.name)
    local a = journal and journal.known[key]
    if not a and over() then break end
    if not a then
      a = { kl = accuracy.pair(net, candidate.net, opts.validate, WHAT, 'validate').kl }
      if journal then journal:put(key, a) end
    end
    local saved = held.bytes(candidate.before).mb - held.bytes(candidate.module).mb
    if saved > 0 then
      steps[#steps + 1] = { candidate = candidate, kl = a.kl, saved = saved,
        harm = a.kl == a.kl and math.max(a.kl, 0) / saved or math.huge }
    end
  end
  table.sort(steps, function(x, y)
    if x.harm ~= y.harm then return x.harm < y.harm end
    return x.candidate.name .. x.candidate.kind < y.candidate.name .. y.candidate.kind
  end)
  return steps
end

local function text_of(rows, chosen)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = ('%s:%s'):format(row.name, chosen[row.name] and chosen[row.name].kind or 'f32')
  end
  return table.concat(list, ' ')
end

-- Points that nothing smaller equals.
local function mark_front(points)
  for _, p in ipairs(points) do
    p.front = true
    for _, q in ipairs(points) do
      if q ~= p and q.mb <= p.mb and q.drop <= p.drop and (q.mb < p.mb or q.drop < p.drop) then
        p.front = false
      end
    end
  end
end

-- One net of the search, measured.
local function point_of(net, q, chosen, rows, opts)
  local a = accuracy.pair(net, q, opts.validate, WHAT, 'validate')
  return { mb = held.bytes(q).mb, drop = -a.difference.share, drop_lo = -a.difference.hi,
    drop_hi = -a.difference.lo, kl = a.kl, changed = a.changed, n = a.n,
    layers = text_of(rows, chosen) }
end

local function copied(t)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  return out
end

-- -- Going on -------------------------------------------------------------------------------------

-- What must be equal for what is known to be of this search.
local function question_of(net, opts)
  return { net = journal_of.of_net(net), validate = journal_of.of_rows(opts.validate),
    calibrate = journal_of.of_rows(opts.calibrate), machine = journal_of.of_machine(),
    options = ('%s %d batches, %.17g'):format(table.concat(opts.kinds, ' '), opts.batches,
      opts.max_drop) }
end

local function note_before(notes, journal)
  if not journal then return end
  if journal.before > 0 then
    notes[#notes + 1] = ('went on in %s, where %d results were'):format(journal.folder,
      journal.before)
  elseif journal.other then
    notes[#notes + 1] = ('began anew: searches in %s are of another %s'):format(journal.folder,
      journal.other)
  end
end

-- -- The search -----------------------------------------------------------------------------------

-- Take steps as long as accuracy allows; what does too much harm is left.
local function walk(net, base, steps, rows, opts, over, journal)
  local chosen, best, saved, points, seen = {}, nil, {}, {}, {}
  for _, step in ipairs(steps) do
    local name = step.candidate.name
    if not saved[name] or step.saved > saved[name] then
      local tried = copied(chosen)
      tried[name] = step.candidate
      local key = 'net of ' .. text_of(rows, tried)
      local point = journal and journal.known[key]
      if not point and over() then break end
      if not point then
        point = point_of(net, candidates.together(base, tried), tried, rows, opts)
        if journal then journal:put(key, point) end
      end
      seen[name] = true
      point.taken = point.drop <= opts.max_drop
      points[#points + 1] = point
      if point.taken then chosen, best, saved[name] = tried, point, step.saved end
    end
  end
  return chosen, best, points, seen
end

local function lines_of(rows, chosen, left, tried, ended)
  local why, list = {}, {}
  for _, layer in ipairs(left) do why[layer.name] = layer.why end
  for i, row in ipairs(rows) do
    local candidate = chosen[row.name]
    list[i] = { name = row.name, class = row.class, kind = candidate and candidate.kind or 'f32',
      why = not candidate and (why[row.name] or ended and not tried[row.name]
        and 'the budget ended before it was tried'
        or 'fewer bits cost more accuracy than max_drop, or save no byte') or nil }
  end
  return list
end

-- What was chosen beside the net, timed: in the notes, and as numbers.
local function time(net, q, chosen, opts, rows, notes)
  local kinds = {}
  for _, candidate in pairs(chosen) do kinds[#kinds + 1] = candidate.kind end
  if #kinds == 0 then
    notes[#notes + 1] = 'no layer is in fewer bits: the net is as large and as fast as it was'
    return {}
  end
  if not rows then
    notes[#notes + 1] = 'time was not looked at (rows = false); quant.compare measures it'
    return {}
  end
  local x = batches.peek(opts.validate, WHAT, 'validate')
  rows = math.min(rows, x:size(1))
  local took = faster.asked():compare('net', net, q, x:narrow(1, 1, rows))
  local t = { speedup = 1 / took.ratio, speedup_lo = 1 / took.hi, speedup_hi = 1 / took.lo,
    rows = rows }
  local said = gained.speed(t.speedup_lo, t.speedup_hi, gained.of(kinds))
  notes[#notes + 1] = ('%.2f times as fast [%.2f, %.2f] at %d row%s%s'):format(t.speedup,
    t.speedup_lo, t.speedup_hi, rows, rows == 1 and '' or 's', said and ': ' .. said or '')
  return t
end

local Search = {}
Search.__index = Search

function Search:__tostring()
  local cells = {}
  for i, p in ipairs(self.points) do
    cells[i] = { p.front and '*' or '', ('%.4f'):format(p.mb), ('%+.2f [%+.2f, %+.2f]'):format(
      -100 * p.drop, -100 * p.drop_hi, -100 * p.drop_lo), ('%d of %d'):format(p.changed, p.n),
      p.taken and 'yes' or 'no', p.layers }
  end
  return columns.text({ 'front', 'MB', 'accuracy %', 'changed', 'taken', 'layers' }, cells)
end

--- Print it.
function Search:print() print(tostring(self)) end

--- The nets that were tried as a picture: megabytes against accuracy that is lost.
---@param opt table|nil of ridge.plot's pareto
---@return table figure
function Search:plot(opt)
  local given = options.over({ x = 'mb', y = 'drop', better_x = 'lower', better_y = 'lower',
    label = 'layers' }, opt, 'plot.pareto')
  return require('ridge.plot').draw('pareto', self.points, given)
end

--- Choose bits for each layer: layers go to fewer bits one after the other, those first that do
--- the least harm for a byte, and each step is kept where accuracy on `validate` has not dropped by
--- more than `max_drop`. When the budget ends, or when a program is asked to end in good order, it
--- is the best so far, and the report says so.
---
--- With a `folder`, layers in fewer bits and what was measured of them are kept there as they are
--- known: the same call goes on from there, whatever ended it, and takes the files away when it has
--- come to its end. Another net, other rows, options or threads are another search.
---
--- What was chosen is timed beside the net with `rows` rows of `validate`: fewer bits are fewer
--- bytes, and small layers are slower in a few bits. The report says which it is here.
---
--- What was chosen on `validate` is to be reported on other rows: on `test`, which is looked at
--- once, when all is chosen; rows of `validate` and `calibrate` are refused there, as quant.compare
--- does it. With `calibrate`, i8 is static and weights are rounded by gptq.
---@param net table module in evaluation mode
---@param opts table {validate = loader, max_drop = 0.005, budget = '10m', calibrate = loader,
---  batches = 100, kinds = {'i8', 'w4', 'w3', 'w2'}, rows = 1, test = loader, folder = 'search'}
---@return table q
---@return table search points {mb, drop, drop_lo, drop_hi, kl, changed, layers, taken, front},
---  speedup, speedup_lo, speedup_hi, rows; print(), plot()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(32, 32), ridge.nn.Linear(32, 3)):eval()
-- >> local data = ridge.data.Loader({ ridge.randn(64, 32), ridge.zeros(64) }, { batch = 32 })
-- >> return ridge.quant.search(net, { validate = data, budget = 5 })
function M.search(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  opts.kinds = opts.kinds or { 'i8', 'w4', 'w3', 'w2' }
  candidates.check(opts.kinds, WHAT)
  local rows_asked = rows_of(opts.rows, WHAT)
  local seconds, now = part.seconds(opts.budget), services().now
  local ends, ended = now() + seconds * 1e9, false
  local function over()
    ended = ended or require('ridge').stopping() and 'interrupted' or now() > ends and 'budget'
    return ended
  end
  local seen = batches.seen()
  for x in batches.each(opts.validate, nil, WHAT, 'validate') do seen:add(x) end
  if opts.calibrate then seen:refuse(opts.calibrate, WHAT, 'calibrate', 'the validation data') end
  local chosen_on = seen.n
  if opts.calibrate then
    for x in batches.each(opts.calibrate, nil, WHAT, 'calibrate') do seen:add(x) end
  end
  local seen_as = opts.calibrate and 'the validation or calibration data' or 'the validation data'
  if opts.test then seen:refuse(opts.test, WHAT, 'test', seen_as) end
  local journal = opts.folder and journal_of.open(opts.folder, question_of(net, opts))
  local base, list, left, taken = candidates.of(net, opts, WHAT, over, journal)
  if not ended then candidates.need_some(list, left, WHAT) end
  local rows = nets.layers(base)
  local steps = steps_of(net, list, opts, over, journal)
  local chosen, best, points, tried = walk(net, base, steps, rows, opts, over, journal)
  mark_front(points)
  local q = candidates.together(base, chosen)
  q = chain.link(q, taken)
  local notes = { ('chosen on %d rows: accuracy may drop by %.3g %% of them; %d nets were tried')
    :format(chosen_on, 100 * opts.max_drop, #points) }
  if best then
    notes[2] = ('there it drops by %.2f %% [%.2f, %.2f], %d answers changed'):format(
      100 * best.drop + 0, 100 * best.drop_lo, 100 * best.drop_hi, best.changed)
  end
  if ended then
    notes[#notes + 1] = (ended == 'budget' and 'the budget ended' or 'interrupted')
      .. ': this is the best so far'
  end
  local took = ended == 'interrupted' and {} or time(net, q, chosen, opts, rows_asked, notes)
  note_before(notes, journal)
  if opts.test then
    local a = accuracy.pair(net, q, opts.test, WHAT)
    notes[#notes + 1] = ('on test: accuracy %.2f %% [%.2f, %.2f], %d of %d answers changed'):format(
      100 * a.quantized.share, 100 * a.quantized.lo, 100 * a.quantized.hi, a.changed, a.n)
  end
  report.attach(q, 'search', lines_of(rows, chosen, left, tried, ended), notes)
  q._quant.seen, q._quant.seen_as = seen, seen_as
  if journal then journal:close(not ended) end
  return q, setmetatable({ points = points, ended = ended and true or false, rows = took.rows,
    speedup = took.speedup, speedup_lo = took.speedup_lo, speedup_hi = took.speedup_hi }, Search)
end

guard.result(Search)

return M
