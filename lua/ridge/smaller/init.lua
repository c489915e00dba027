-- SPDX-License-Identifier: MIT
--- A smaller or faster net that costs no more accuracy than is allowed: bits, patterns, sparsities
--- and widths are tried, each measured in bytes, time and answers beside the original.

local ab = require('ridge.measure.ab').ab
local accuracy = require 'ridge.quant.accuracy'
local batches = require 'ridge.quant.batches'
local blame = require 'ridge.blame'
local capture = require('ridge.capture').capture
local copy = require 'ridge.nn.copy'
local found_of = require 'ridge.smaller.found'
local gained = require 'ridge.quant.gained'
local held = require 'ridge.quant.held'
local inference = require('ridge.tensor.mode').inference
local is_interrupt = require('ridge.sweep.block').is_interrupt
local journal_of = require 'ridge.quant.journal'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local outcome = require 'ridge.prune.outcome'
local part = require 'ridge.sweep.part'
local ref = require 'ridge.ffi.ref'
local services = require('ridge.measure.native').services
local versions = require 'ridge.smaller.versions'

local M = {}

local WHAT = 'smaller'
local GROUPS = { 'quant', 'prune', 'shrink' }

local SPEC = {
  validate = { 'table', required = true, doc = 'a loader of (x, labels): what is chosen on' },
  test = { 'table', doc = 'a loader of (x, labels): what was chosen is reported on it, once' },
  calibrate = { 'table', doc = 'a loader of inputs, for ranges and for rounding' },
  train = { 'any', doc = 'function(net, epochs): tunes what was pruned, as the net was trained' },
  epochs = { 'integer', default = 1, min = 1, max = 1e6,
    doc = 'for train, behind each step of pruning' },
  trained = { 'integer', min = 1, max = 1e6,
    doc = 'epochs that the net was trained for: its small shape is given as many' },
  max_drop = { 'number', default = 0.005, min = 0, max = 1,
    doc = 'of accuracy on validate, as a share of rows' },
  only = { 'table', doc = "some of 'quant', 'prune', 'shrink'; all when left out" },
  goal = { 'string', default = 'bytes', choices = { 'bytes', 'time' },
    doc = 'what is to be least among those within max_drop' },
  bits = { 'table', doc = "{ 'bf16', 'dynamic', 'static', 'w4', 'w3', 'w2' } when left out" },
  patterns = { 'table', doc = "{ 'element', 'block', '2:4' } when left out" },
  sparsities = { 'table', doc = '{ 0.5, 0.7, 0.9 } when left out' },
  widths = { 'table', doc = 'shares of units that stay, { 0.75, 0.5, 0.25 } when left out' },
  input = { 'any', doc = 'what is timed; the first row of validate when left out' },
  budget = { 'number|string', default = '30m',
    doc = "of the search: seconds, or '90s', '15m', '1h30m'" },
  looks = { 'integer', default = 3, min = 1, max = 20,
    doc = 'at paired blocks of a net and the original, at most' },
  control = { 'boolean', default = true,
    doc = 'random pruning, and the small shape from the start' },
  progress = { 'any', doc = 'function(text), called with a line for each net' },
  seed = { 'integer', default = 1, min = 0, max = 2 ^ 53, doc = 'of what is drawn' },
  folder = { 'string', doc = 'where what is known is kept: the same call goes on from there' },
}

-- -- Options --------------------------------------------------------------------------------------

local function default(opts, name, group, list)
  local given = opts[name]
  if not opts.only[group] then
    if given then
      blame.raise(("%s: option %s is of '%s', which is not in only"):format(WHAT, name, group),
        'EARG')
    end
    opts[name] = {}
  else
    opts[name] = options.list(given or list, ('%s: %s'):format(WHAT, name),
      (name == 'bits' or name == 'patterns') and 'names' or nil)
  end
end

local function set_of(only)
  local set = {}
  for _, name in ipairs(options.list(only or GROUPS, WHAT .. ': only', 'names')) do
    local known = false
    for _, each in ipairs(GROUPS) do known = known or each == name end
    if not known then
      blame.raise(('%s: option only has %s; it has some of %s'):format(WHAT, blame.show(name),
        table.concat(GROUPS, ', ')), 'EARG')
    end
    set[name] = true
  end
  if next(set) == nil then blame.raise(WHAT .. ': option only is empty', 'EARG') end
  return set
end

local function need_callable(f, name)
  if f ~= nil and not blame.callable(f) then
    blame.raise(('%s: option %s is a function, got %s'):format(WHAT, name, blame.show(f)), 'EARG')
  end
end

local function input_of(opts)
  if opts.input == nil then
    local x = batches.peek(opts.validate, WHAT, 'validate')
    return x:narrow(1, 1, 1)
  end
  local x = ref.need(opts.input, WHAT .. ': input')
  if x.ndim == 0 or x:size(1) == 0 then
    blame.raise(('%s: option input has no rows: %s'):format(WHAT, x:describe()), 'ESHAPE')
  end
  return x
end

-- What a train function raises is its caller's, and no property of a net that was tried.
local function passed_on(opts)
  local train = opts.train
  if not train then return end
  opts.train = function(net, epochs)
    local ok, err = pcall(train, net, epochs)
    if not ok then
      opts.raised = { err }
      error(err, 0)
    end
  end
end

local function check(net, opts)
  nets.need(net, WHAT)
  outcome.need_train(opts.train, WHAT, false)
  need_callable(opts.progress, 'progress')
  opts.only = set_of(opts.only)
  local bits = { 'bf16', 'dynamic', 'w4', 'w3', 'w2' }
  if opts.calibrate then table.insert(bits, 3, 'static') end
  default(opts, 'bits', 'quant', bits)
  default(opts, 'patterns', 'prune', { 'element', 'block', '2:4' })
  default(opts, 'sparsities', 'prune', { 0.5, 0.7, 0.9 })
  default(opts, 'widths', 'shrink', { 0.75, 0.5, 0.25 })
  versions.check(opts, WHAT)
  opts.seconds = part.seconds(opts.budget)
  opts.input = input_of(opts)
  passed_on(opts)
end

-- Rows of one set in another are refused before anything is measured.
local function check_data(opts)
  local seen = batches.seen()
  for x in batches.each(opts.validate, nil, WHAT, 'validate') do seen:add(x) end
  if opts.calibrate then
    seen:refuse(opts.calibrate, WHAT, 'calibrate', 'the validation data')
    for x in batches.each(opts.calibrate, nil, WHAT, 'calibrate') do seen:add(x) end
  end
  if opts.test then
    seen:refuse(opts.test, WHAT, 'test', opts.calibrate and 'the validation or calibration data'
      or 'the validation data')
  end
end

-- -- Measuring ------------------------------------------------------------------------------------

-- By the whole interval of what was lost.
local function within(lo, hi, most) return hi <= most and 'yes' or lo > most and 'no' or 'open' end

local function measure(point, net, q, opts)
  local a, x = accuracy.pair(net, q, opts.validate, WHAT, 'validate'), opts.input
  local plan_a, plan_b = capture(inference, net, x), capture(inference, q, x)
  local took = ab { a = plan_a, b = plan_b, check = false, looks = opts.looks }
  local bytes = held.bytes(q, plan_b)
  plan_a:release()
  plan_b:release()
  point.drop, point.drop_lo = -a.difference.share, -a.difference.hi
  point.drop_hi, point.kl, point.changed, point.n = -a.difference.lo, a.kl, a.changed, a.n
  point.within = within(point.drop_lo, point.drop_hi, opts.max_drop)
  point.mb, point.stored_mb = bytes.mb, bytes.stored / 2 ^ 20
  point.speedup, point.speedup_lo, point.speedup_hi = 1 / took.ratio, 1 / took.ci_hi, 1 / took.ci_lo
  point.ms, point.verdict = took.b_ns / 1e6, took.verdict
  return point, took.a_ns / 1e6
end

local function point_at(at, kind)
  local structure = versions.name(at)
  return { net = found_of.name(structure, kind), structure = structure, bits = kind,
    width = at.width, pattern = at.pattern, sparsity = at.sparsity }
end

local EQUAL = 0.01 -- of the bytes: nets so near the smallest are chosen among by their speed

-- -- The search -----------------------------------------------------------------------------------

local Search = {}
Search.__index = Search

-- True when no other net is to be tried: the budget is over, or somebody pressed Ctrl-C.
function Search:over()
  if not self.found.ended then
    self.found.ended = require('ridge').stopping() and 'interrupted'
      or services().now() > self.ends and 'budget'
  end
  return self.found.ended
end

-- Is a point to be taken before the best one? Of bytes that hardly differ from the fewest, the
-- faster one; one that has as many as the original is not smaller, however fast it is.
function Search:better(p)
  local best = self.best
  if self.opts.goal == 'time' then return p.speedup_lo > 1 and p.speedup > best.speedup end
  if p.mb >= self.found.points[1].mb then return false end
  local near = (1 + EQUAL) * math.min(self.least, p.mb)
  return best.mb > near or p.mb <= near and p.speedup_lo > best.speedup_hi
end

-- Call something that may be impossible for a net: what it returns, or nil and why.
function Search:try(f, ...)
  local ok, made, why = pcall(f, ...)
  if ok then return made, why end
  if is_interrupt(made) then
    self.found.ended = 'interrupted'
    return nil
  end
  if self.opts.raised then error(self.opts.raised[1], 0) end
  if not blame.is_error(made) then error(made, 0) end
  return nil, made.message
end

function Search:tell(point)
  local list = self.found.points
  list[#list + 1] = point
  if not self.opts.progress then return end
  self.opts.progress(point.why and ('%s: %s'):format(point.net, point.why)
    or ('%s: %+.2f %% of accuracy, %.4f MB, %.2f times as fast'):format(point.net,
    -100 * point.drop, point.mb, point.speedup))
end

-- What is known of a net of before; nil where nothing is.
function Search:known(at, kind)
  local point = point_at(at, kind)
  return self.journal and self.journal.known[point.net] and point
end

-- A net that was measured, among the others: q, or, of before, nil.
function Search:take(point, q)
  self:tell(point)
  if point.mb and point.drop <= self.opts.max_drop then
    if self:better(point) then
      self.best, self.q = point, q
      if self.journal and q then self.journal:put_net('best ' .. point.net, q) end
    end
    self.least = math.min(self.least, point.mb)
  end
  return point
end

function Search:point(made, at, kind)
  local point, opts = self:known(at, kind), self.opts
  if point then
    for name, value in pairs(self.journal.known[point.net]) do point[name] = value end
    return self:take(point)
  end
  if type(made) == 'function' then
    made = made()
    if not made then return nil end
  end
  point = point_at(at, kind)
  local q, why = self:try(versions.of, made, at, kind, opts)
  if q then
    local done
    done, why = self:try(measure, point, self.net, q, opts)
    if not done then q = nil end
  end
  if self.found.ended == 'interrupted' then return nil end
  point.why = not q and why or nil
  if self.journal then self.journal:put(point.net, point) end
  return self:take(point, q)
end

-- What alone certainly costs too much is not tried with something else besides.
local function too_much(point) return point and point.within == 'no' end

function Search:structure(at)
  local original = at.width == 1 and at.pattern == 'dense'
  local without = 1 + #self.opts.bits
  local width, pruned = versions.parts(at)
  if width and pruned and (self.costly[width] or self.costly[pruned]) then
    self.found.left = self.found.left + without
    return
  end
  local net, why
  if original then net = self.net end
  local function made() -- trained once, where something of it is not known yet
    if not net then net, why = self:try(versions.structure, self.net, at, self.opts) end
    return net
  end
  if not original then
    if not self:known(at, 'f32') and not made() then
      if self.found.ended then return end
      local point = point_at(at, 'f32')
      point.why, point.impossible = why, true
      if self.journal then self.journal:put(point.net, point) end
      return self:tell(point)
    end
    local point = self:point(made, at, 'f32')
    if point and point.impossible then return end
    if too_much(point) then
      if not (width and pruned) then self.costly[width or pruned] = true end
      self.found.left = self.found.left + #self.opts.bits
      return
    end
  end
  for _, kind in ipairs(self.opts.bits) do
    if not self:known(at, kind) and self:over() then return end
    if self.costly[kind] then
      self.found.left = self.found.left + 1
    else
      local point = self:point(made, at, kind)
      if self.found.ended == 'interrupted' then return end
      if original and too_much(point) then self.costly[kind] = true end
    end
  end
end

function Search:run()
  local opts = self.opts
  local first = point_at({ width = 1, pattern = 'dense', sparsity = 0 }, 'f32')
  local before = self.journal and self.journal.known[first.net]
  if before then
    for name, value in pairs(before) do first[name] = value end
  else
    local _, ms = measure(first, self.net, self.net, opts)
    first.ms, first.speedup, first.speedup_lo, first.speedup_hi = ms, 1, 1, 1 -- beside itself
    if self.journal then self.journal:put(first.net, first) end
  end
  self.found.points[1], self.best, self.least = first, first, first.mb
  for _, at in ipairs(versions.structures(opts)) do
    if not self:known(at, 'f32') and self:over() then return end
    if self.found.ended then return end
    self:structure(at)
  end
end

-- The net of a point that was measured before: from its file, or made and measured once more where
-- it has none (a class of somebody's own).
function Search:again()
  local best, journal = self.best, self.journal
  local q = journal:net('best ' .. best.net)
  if q then return q end
  local made = self:try(versions.structure, self.net, best, self.opts)
  q = made and self:try(versions.of, made, best, best.bits, self.opts)
  if not q or not self:try(measure, best, self.net, q, self.opts) then
    self.found:note('%s was the best of what was measured before, and cannot be made again',
      best.net)
    return nil
  end
  journal:put(best.net, best)
  self.found:note('%s was made and measured once more: it has no file', best.net)
  return q
end

-- -- What was chosen ------------------------------------------------------------------------------

-- The same with weights or units that were drawn, and the small shape that begins anew.
function Search:controls(q)
  local best, opts, found = self.best, self.opts, self.found
  local function against(name, control)
    local made, why = self:try(versions.structure, self.net, best, opts, control)
    local other = made and self:try(versions.of, made, best, best.bits, opts)
    if found.ended == 'interrupted' then return end
    if not other then return found:note('no control, %s: %s', name, why or 'it cannot be made') end
    local pair = accuracy.pair(other, q, opts.test, WHAT)
    found.controls[#found.controls + 1] = { name = name, accuracy = pair, verdict = pair.p >= 0.05
      and 'no difference was shown' or pair.difference.share > 0 and 'better' or 'worse' }
  end
  if best.structure == 'dense' then return end
  if not opts.control then return found:note 'control = false: no control was run' end
  against(best.width < 1 and 'units and weights that were drawn' or 'weights that were drawn',
    'random')
  if best.width == 1 then return end
  if not (opts.train and opts.trained) then
    return found:note 'the small shape is not trained from the start without train and trained'
  end
  against(('the small shape from the start, %d epochs'):format(opts.trained + opts.epochs), 'start')
end

function Search:finish()
  local found, best, opts = self.found, self.best, self.opts
  if self.journal and best ~= found.points[1] and not self.q then self.q = self:again() end
  local q = self.q
  if self.journal and self.journal.before > 0 then
    found:note('went on in %s, where %d nets were measured', self.journal.folder, self.before)
  elseif self.journal and self.journal.other then
    found:note('began anew: searches in %s are of another %s', self.journal.folder,
      self.journal.other)
  end
  if found.left > 0 then
    found:note('%d nets were not tried: a part of them alone costs more than %g %%, by its whole '
      .. 'interval', found.left, 100 * opts.max_drop)
  end
  if found.ended == 'budget' then
    found:note 'the budget ended: this is the best so far'
  elseif found.ended then
    found:note 'interrupted: this is the best so far'
  end
  if not q then
    return found:note('nothing that is %s costs at most %g %%: the net stays as it was',
      opts.goal == 'time' and 'shown to be faster' or 'smaller', 100 * opts.max_drop)
  end
  best.chosen, found.chosen = true, best
  found:note('chosen: %s, %.2f times smaller, %.2f times as fast [%.2f, %.2f]; on validate %+.2f '
    .. '%% [%+.2f, %+.2f]', best.net, found.points[1].mb / best.mb, best.speedup, best.speedup_lo,
    best.speedup_hi, -100 * best.drop, -100 * best.drop_hi, -100 * best.drop_lo)
  local slow = gained.speed(best.speedup_lo, best.speedup_hi, found_of.made_of(best.bits))
  if slow then found:note('%s', slow) end
  if not opts.test then
    return found:note 'without test nothing is known of it on rows that it was not chosen on'
  end
  local a = accuracy.pair(self.net, q, opts.test, WHAT)
  local verdict = within(-a.difference.hi, -a.difference.lo, opts.max_drop)
  found.test, found.test_verdict = a, verdict == 'yes' and 'holds' or verdict == 'no'
    and 'does not hold' or 'open'
  if found.ended == 'interrupted' then
    if best.structure ~= 'dense' then found:note 'interrupted: no control was run' end
  else
    self:controls(q)
  end
end

-- What must be equal for what is known to be of this search.
local function question_of(net, opts)
  local o = {}
  for _, name in ipairs { 'bits', 'patterns', 'sparsities', 'widths' } do
    o[name] = table.concat(opts[name], ' ')
  end
  local options_text = ('bits %s, patterns %s, sparsities %s, widths %s, max_drop %.17g, goal %s, '
    .. 'epochs %d, trained %s, looks %d, seed %d, train %s'):format(o.bits, o.patterns,
    o.sparsities, o.widths, opts.max_drop, opts.goal, opts.epochs, tostring(opts.trained),
    opts.looks, opts.seed, opts.train and 'yes' or 'no')
  return { net = journal_of.of_net(net), validate = journal_of.of_rows(opts.validate),
    calibrate = journal_of.of_rows(opts.calibrate), input = opts.input:describe(),
    machine = journal_of.of_machine(), options = options_text }
end

--- Look for a smaller net: bits, patterns and sparsities of pruning and widths are tried, each
--- alone and then together, and each net is measured beside the original, in bytes that it holds,
--- in time (paired blocks of plans) and in answers on `validate`.
---
--- Of the nets whose accuracy there drops by at most `max_drop` the one with the fewest bytes is
--- chosen, or with goal = 'time' the fastest that is shown to be faster. It is reported on `test`,
--- which is looked at once, when all is chosen, with controls where it was pruned: the same with
--- weights or units that were drawn, and the small shape trained from the start. When the budget
--- ends, or after Ctrl-C, it is the best so far.
---
--- With a `folder`, what was measured and the best net so far are kept there as they are known: the
--- same call goes on from there, whatever ended it, and takes the files away when it has come to
--- its end. Another net, other rows, options or threads are another search; what `train` does is
--- not looked at.
---
--- Without `train` nothing is tuned, and pruning costs more. The net stays as it was.
---@param net table module in evaluation mode
---@param opts table {validate = loader, test = loader, calibrate = loader, train = function(net,
---  epochs), epochs = 1, trained = 8, max_drop = 0.005, only = {'quant', 'prune', 'shrink'}, goal =
---  'bytes', bits = {'static', 'w4'}, patterns = {'block'}, sparsities = {0.7}, widths = {0.5},
---  input = Tensor, budget = '30m', looks = 3, control = true, progress = print, seed = 1, folder =
---  'search'}
---@return table q what was chosen, or a copy of the net where nothing was
---@return table found points {net, width, pattern, sparsity, bits, drop, drop_lo, drop_hi, within,
---  changed, kl, mb, ms, speedup, speedup_lo, speedup_hi, front, why}, chosen, test, controls,
---  ended, notes; print(), plot(), claims(), keep { name, db }
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(32, 32), ridge.nn.Linear(32, 3)):eval()
-- >> local data = ridge.data.Loader({ ridge.randn(64, 32), ridge.zeros(64) }, { batch = 32 })
-- >> return ridge.smaller(net, { validate = data, only = { 'quant' }, bits = { 'bf16' } })
function M.smaller(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  check(net, opts)
  check_data(opts)
  local search = setmetatable({ net = net, opts = opts, found = found_of.new(opts), costly = {},
    ends = services().now() + opts.seconds * 1e9 }, Search)
  search.found.rows = opts.input:size(1)
  if opts.folder then
    search.journal = journal_of.open(opts.folder, question_of(net, opts))
    search.before = 0
    for key in pairs(search.journal.known) do
      if not key:find '^net ' then search.before = search.before + 1 end
    end
    if search.before > 0 and opts.progress then
      opts.progress(('%d nets were measured before, in %s: going on'):format(search.before,
        opts.folder))
    end
  end
  search:run()
  search.found:mark_front()
  search:finish()
  if search.journal then search.journal:close(not search.found.ended) end
  return search.q or copy.clone(net), search.found
end

return M
