-- SPDX-License-Identifier: MIT
--- Smaller layers: what is worth least leaves the net, in every parameter that knows of it.

local accuracy = require 'ridge.quant.accuracy'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local copy = require 'ridge.nn.copy'
local cut = require 'ridge.prune.cut'
local faster = require 'ridge.quant.faster'
local fresh = require 'ridge.prune.fresh'
local importance = require 'ridge.prune.importance'
local in_no_grad = require('ridge.tensor.grad').no_grad
local inference = require('ridge.tensor.mode').inference
local masks = require 'ridge.prune.masks'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local options = require 'ridge.options'
local outcome = require 'ridge.prune.outcome'
local ref = require 'ridge.ffi.ref'
local units = require 'ridge.prune.units'

local M = {}

local WHAT = 'prune.shrink'

local SPEC = {
  share = { 'number', nan = true, doc = 'of each group of units that goes; without it, what masks '
    .. 'made 0 goes' },
  importance = { 'table', doc = 'of ridge.prune.importance; by l1 when left out' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
  train = { 'any', doc = 'function(net, epochs): tunes the net it is given' },
  epochs = { 'integer', default = 1, min = 0, max = 1e6, doc = 'for train' },
  trained = { 'integer', min = 0, max = 1e6, doc = 'epochs that the net was trained before: the '
    .. 'small shape gets them as well' },
  test = { 'table', doc = 'a loader of (x, labels): what it cost, beside the controls' },
  control = { 'boolean', default = true, doc = 'units that are drawn, and the small shape trained '
    .. 'from the start' },
  time = { 'boolean', default = true, doc = 'compare the time of both with this input' },
  seed = { 'integer', default = 1, min = 0, max = 2 ^ 53, doc = 'of the controls' },
}

-- -- What goes ------------------------------------------------------------------------------------

-- What a unit is worth: the mean of what its outputs are worth in the layers that make it. Units
-- that no such layer makes (the columns of a table) are worth their mean magnitude.
local function worth(unit, scores, magnitudes)
  local sum, n = 0, 0
  for _, m in ipairs(unit.members) do
    local place = m.param.places[1]
    local of = m.axis == 1 and place.own == 'weight' and scores:of(place.module_name)
    for _, at in ipairs(of and m.index or {}) do
      if not of[at] then
        blame.raise(('%s: importance is of another net: %s has %d outputs there'):format(WHAT,
          place.module_name, #of), 'EARG')
      end
      sum, n = sum + of[at], n + 1
    end
  end
  if n > 0 then return sum / n end
  for _, m in ipairs(unit.members) do
    local list = magnitudes(m.param, m.axis)
    for _, at in ipairs(m.index) do sum, n = sum + list[at], n + 1 end
  end
  return sum / n
end

local function magnitudes_of()
  local known = {}
  return function(param, axis)
    local key = param.name .. ':' .. axis
    if not known[key] then
      local x, over = param.tensor:detach():to('f64'):abs(), {}
      for i = 1, x.ndim do
        if i ~= axis then over[#over + 1] = i end
      end
      known[key] = (#over > 0 and x:mean(over) or x):tolist()
    end
    return known[key]
  end
end

-- The units of a group that go: those that do nothing first.
local function least(group, share, scores, magnitudes)
  local list = {}
  for i, unit in ipairs(group.units) do
    list[i] = { unit = unit, at = i, worth = unit.alive and worth(unit, scores, magnitudes)
      or -math.huge }
  end
  table.sort(list, function(a, b)
    if a.worth ~= b.worth then return a.worth < b.worth end
    return a.at < b.at
  end)
  local n, going = math.floor(share * #list + 0.5), {}
  for i = 1, n do going[i] = list[i].unit end
  return going
end

-- Are all weights that make a unit 0, though it is not?
local function is_silent(unit, magnitudes)
  local any = false
  for _, m in ipairs(unit.members) do
    if m.axis == 1 and m.param.places[1].own == 'weight' and m.param.tensor.ndim >= 2 then
      for _, at in ipairs(m.index) do
        if magnitudes(m.param, 1)[at] > 0 then return false end
      end
      any = true
    end
  end
  return any and unit.alive
end

-- What is said of them, or nil.
local function silent_ones(group, names, magnitudes)
  local n = 0
  for _, unit in ipairs(group.units) do n = n + (is_silent(unit, magnitudes) and 1 or 0) end
  if n == 0 then return nil end
  return ('%d of %d units of %s have weights of 0 and stay: something is added to them later (a '
    .. 'bias, a normalisation, a function that is not 0 at 0)'):format(n, #group.units, names)
end

local function dead_ones(group)
  local going = {}
  for _, unit in ipairs(group.units) do
    if not unit.alive then going[#going + 1] = unit end
  end
  return going
end

-- -- Report ---------------------------------------------------------------------------------------

-- The layers that make the units of a group, and those that read them.
local function names_of(group)
  local from, to = {}, {}
  for _, m in ipairs(group.units[1].members) do
    local place = m.param.places[1]
    if place.own == 'weight' and m.param.tensor.ndim >= 2 then
      table.insert(m.axis == 1 and from or to, place.module_name)
    end
  end
  table.sort(from)
  table.sort(to)
  return from, to
end

local function row_of(group, going)
  local from, to = names_of(group)
  local n = #group.units
  return { from = from, to = to, before = n, after = n - #going,
    text = ('%s -> %s: %d of %d units stay'):format(table.concat(from, ', '),
      table.concat(to, ', '), n - #going, n) }
end

-- -- Checks ---------------------------------------------------------------------------------------

local TOLERANCE = { f64 = 1e-9, f32 = 1e-4 }

local function tensors_in(value, list)
  if ref.is(value) then
    list[#list + 1] = value
  elseif type(value) == 'table' and getmetatable(value) == nil then
    for _, each in ipairs(value) do tensors_in(each, list) end
  end
  return list
end

local function results(net, inputs) return tensors_in({ inference(net, unpack(inputs)) }, {}) end

-- Does the cut net compute, and what the whole one does where these units add nothing? Of units
-- that no parameter multiplies the whole net has no such form.
local function check(net, small, inputs, going, unseen)
  local ok, found = pcall(results, small, inputs)
  if not ok then
    blame.raise(('%s: the smaller net does not compute: %s; a module of your own may have sizes of '
      .. 'its own: name it in skip'):format(WHAT, tostring(found)), 'EARG')
  end
  if unseen then return end
  cut.silence(going)
  for i, expected in ipairs(results(net, inputs)) do
    local tolerance = TOLERANCE[expected.dtype] or 0.05
    local apart = found[i]:describe() == expected:describe()
      and expected.count > 0 and (found[i]:detach():to 'f64' - expected:detach():to 'f64'):abs()
      :max():item() or expected.count > 0 and math.huge or 0
    local scale = expected.count > 0 and expected:detach():to('f64'):abs():max():item() or 0
    if not (apart <= tolerance * (1 + scale)) then
      blame.raise(('%s: the smaller net computes something else (off by %.3g): a module of your '
        .. 'own may have sizes of its own: name it in skip'):format(WHAT, apart), 'EARG')
    end
  end
end

-- -- Cutting --------------------------------------------------------------------------------------

local function need_inputs(x)
  local inputs = ref.is(x) and { x } or x
  if type(inputs) ~= 'table' or #inputs == 0 then
    blame.raise(('%s: an input is expected, a tensor or a list of them, got %s'):format(WHAT,
      blame.show(x)), 'EARG')
  end
  for i, each in ipairs(inputs) do ref.need(each, ('%s: input %d'):format(WHAT, i)) end
  return inputs
end

-- A copy of which units are gone, and rows that say how many.
local function shrunk(net, inputs, opts, scores)
  local made = copy.clone(net):eval()
  local skipped = nets.skipped(net, opts.skip, WHAT)
  local groups, left = in_no_grad(units.of, made, inputs, skipped)
  local magnitudes, all, rows, unseen, silent = magnitudes_of(), {}, {}, false, {}
  for _, group in ipairs(groups) do
    local going = opts.share and least(group, opts.share, scores, magnitudes) or dead_ones(group)
    if #going == #group.units then
      blame.raise(('%s: nothing would be left of %s (%d units)'):format(WHAT,
        table.concat((names_of(group)), ', '), #group.units), 'EARG')
    end
    rows[#rows + 1] = row_of(group, going)
    silent[#silent + 1] = not opts.share
      and silent_ones(group, table.concat(rows[#rows].from, ', '), magnitudes) or nil
    for _, unit in ipairs(going) do
      all[#all + 1] = unit
      unseen = unseen or unit.unseen
    end
  end
  if #all == 0 then
    local why = left[1] and (' (%s: %s)'):format(left[1].name, left[1].why) or ''
    if groups[1] and opts.share then
      why = (': a share of %g of the %d units of %s is less than half of one'):format(opts.share,
        #groups[1].units, table.concat((names_of(groups[1])), ', '))
    end
    blame.raise(opts.share and ('%s: nothing can go%s'):format(WHAT, why)
      or ('%s: no unit is 0 as a whole%s; option share says how much is to go'):format(WHAT,
        silent[1] and ' (' .. silent[1] .. ')' or ''), 'EARG')
  end
  local small = copy.clone(made)
  cut.cut(small, units.same(small, all))
  check(made, small, inputs, all, unseen)
  return small, rows, left, silent
end

local function add_sizes(report, net, small, inputs, time)
  local before, after = net:num_parameters(), small:num_parameters()
  report.parameters = { before = before, after = after }
  report:note(('%d of %d numbers that are trained stay (%.1f %%)'):format(after, before,
    100 * after / math.max(before, 1)))
  if not time then return end
  local function with_rest(f) return function(x) return f(x, unpack(inputs, 2)) end end
  local found = faster.asked():compare('net', with_rest(net), with_rest(small), inputs[1])
  report.speedup = { ratio = 1 / found.ratio, lo = 1 / found.hi, hi = 1 / found.lo }
  report:note(('Speedup with this input: %.2fx [%.2f, %.2f]%s'):format(1 / found.ratio,
    1 / found.hi, 1 / found.lo, found.lo <= 1 and found.hi >= 1 and ': none was shown' or ''))
end

-- -- Controls -------------------------------------------------------------------------------------

local function tune(small, opts, epochs)
  if not opts.train then return small end
  small:train()
  opts.train(small, epochs or opts.epochs)
  return small:eval()
end

local function judge(report, net, made, shape, inputs, opts)
  report:judge(opts.train and 'shrunk and tuned' or 'shrunk', net, made, opts.test, WHAT)
  if not opts.control then return report:note 'control = false: no control was run' end
  local function against(name, other)
    report:judge('control, ' .. name, net, other, opts.test, WHAT)
    report:against(name, accuracy.pair(other, made, opts.test, WHAT))
  end
  if opts.share then
    local drawn = importance.importance(net, { by = 'random', seed = opts.seed })
    against('units that were drawn', tune((shrunk(net, inputs, opts, drawn)), opts))
  end
  if not opts.train then
    return report:note 'without option train the small shape is not trained from the start'
  end
  local why = fresh.begin(shape, opts.seed)
  if why then
    return report:note(('the small shape is not trained from the start: nobody knows how %s '
      .. 'begins'):format(why))
  end
  local epochs = (opts.trained or 0) + opts.epochs
  against(('the small shape from the start, %d epochs'):format(epochs), tune(shape, opts, epochs))
  if not opts.trained then
    report:note('the shrunk net had the training of the net besides: option trained, its epochs, '
      .. 'gives the small shape as much')
  end
end

--- A copy of a net with smaller layers: units leave it in all parameters that know of them, along
--- the graph of a call with x. What meets in a sum goes together, the parts of a concatenation by
--- themselves; groups, depthwise convolutions, heads of attention, what is flattened, batch
--- normalisation, tied weights, masks and running statistics follow. What cannot be followed stays
--- whole, and the report names it.
---
--- With `share`, that part of each group goes, by importance; without it what masks made 0 as a
--- whole goes, and the results stay. The smaller net is held against the whole one in which the
--- same units add nothing, and an error says where they differ. The net stays as it was.
---
--- With `train` it is tuned; with `test` the report has its accuracy beside the controls: units
--- that are drawn instead, and the small shape trained from the start, with as many epochs as
--- the net (`trained`) and its tuning together. control = false leaves them out.
---@param net table module, in either mode
---@param x Tensor|table an input, or a list of inputs
---@param opts table|nil {share = 0.5, importance = ridge.prune.importance, skip = {'head'}, train =
---  function(net, epochs), epochs = 1, trained = 8, test = loader, control = true, time = true,
---  seed = 1}
---@return table small in the mode of the net
---@return table report rows {from, to, before, after}, left {name, class, why}, parameters,
---  speedup, candidates, controls, notes; print()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 6), ridge.nn.ReLU(), ridge.nn.Linear(6, 2))
-- >> return ridge.prune.shrink(net, ridge.randn(4, 8), { share = 0.5, time = false })
function M.shrink(net, x, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT, true)
  local inputs = need_inputs(x)
  if opts.share then masks.need_share(opts.share, 'share', WHAT) end
  outcome.need_train(opts.train, WHAT, false)
  local scores = opts.importance
  if scores ~= nil and not class.is_a(scores, importance.Importance) then
    blame.raise(('%s: option importance is of ridge.prune.importance, got %s'):format(WHAT,
      blame.show(scores)), 'EARG')
  end
  if scores and scores.seen and opts.test then
    scores.seen:refuse(opts.test, WHAT, 'test', 'the data of importance')
  end
  scores = scores or opts.share and importance.importance(net) or nil
  local report = outcome.new 'shrink'
  local small, silent
  small, report.rows, report.left, silent = shrunk(net, inputs, opts, scores)
  for _, text in ipairs(silent) do report:note(text) end
  local shape = opts.train and opts.test and opts.control and copy.clone(small)
  tune(small, opts)
  add_sizes(report, net, small, inputs, opts.time)
  if opts.test then judge(report, net, small, shape, inputs, opts) end
  for _, layer in ipairs(report.left) do
    report:note(('%s (%s) stays whole: %s'):format(layer.name, layer.class, layer.why))
  end
  if net.training then small:train() end
  return notes.attach(small, 'shrink', report.left), report
end

return M
