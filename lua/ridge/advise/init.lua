-- SPDX-License-Identifier: MIT
--- ridge.advise: the documents' checklists, pitfalls and troubles, each line evaluated on a run
--- that is measured: does it apply, by which numbers, what to try, and what measures that.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local checklists = require 'ridge.advise.checklists'
local guard = require 'ridge.guard'
local nn = require 'ridge.nn'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local run_of = require 'ridge.advise.run'
local say = require 'ridge.advise.say'
local subject = require 'ridge.advise.subject'
local trial_of = require 'ridge.advise.trial'

local M = {}

-- The order of document 000 (F220), and then what is advanced: time, memory, training, machine.
local ORDER = {
  { 'speed', 'mixed_precision', 'compile', 'batch_size', 'bottlenecks', 'loading', 'fusion',
    'copies', 'transfers', 'waiting', 'sizes', 'optimizer', 'device_graph', 'compile_fails',
    'throughput' },
  { 'memory', 'memory', 'recompute', 'accumulation', 'splitting', 'cache', 'system_memory',
    'watched', 'loading_memory' },
  { 'training', 'divergence', 'noise', 'loss_scale', 'schedule' },
  { 'machine', 'backend', 'hardware', 'available', 'several_devices', 'quantize',
    'quantized_accuracy', 'smaller_net', 'result_cache' },
}

local COMMON = {
  seconds = { 'number', default = 20, min = 0.1, max = 86400,
    doc = 'that trials may take, about; a comparison has an eighth of them' },
  roof = { 'string', default = 'stored', choices = { 'stored', 'measured', 'none' },
    doc = 'ceilings of this machine, as for ridge.profile' },
}

local NET = {
  target = { 'any', doc = 'what the net should say, a tensor; loss(output, target)' },
  loss = { 'function|table', doc = 'cross entropy where there is a target, else the sum of the '
    .. 'output, when left out' },
  optimizer = { 'table', doc = 'whose steps are part of the run' },
  loader = { 'table', doc = 'whose batches are part of the run' },
  autocast = { 'string', choices = { 'bf16', 'f16' }, doc = 'products are computed in' },
  scaler = { 'table', doc = 'a GradScaler, for f16' },
}
for name, rule in pairs(COMMON) do NET[name] = rule end

local Advice = { __name = 'Advice' }
Advice.__index = Advice
Advice.__tostring = guard.text(function(a) return require('ridge.advise.text').text(a) end)

-- -- Evaluating ---------------------------------------------------------------------------------

-- What a finding says; what it raises is why it could not be told.
local function evaluated(room, name, run)
  local ok, found = pcall(require('ridge.advise.' .. room)[name], run)
  if not ok then
    if blame.is_error(found) and found.code == 'EINTR' then error(found, 0) end
    found = say.unknown(tostring(blame.is_error(found) and found.message or found))
  end
  found.name, found.lines = name, checklists.of(name)
  return found
end

-- What is urgent first, else in the order of ORDER.
local function all_of(run)
  local list, urgent = {}, 0
  for _, room in ipairs(ORDER) do
    for i = 2, #room do
      local found = evaluated(room[1], room[i], run)
      if found.urgent then urgent = urgent + 1 end
      table.insert(list, found.urgent and urgent or #list + 1, found)
    end
  end
  return list
end

local Lines = {}
Lines.__tostring = guard.text(function(lines) return require('ridge.advise.text').lines(lines) end)

local function lines_of(by_name)
  local lines, counts = setmetatable({}, Lines), { applies = 0, no = 0, unknown = 0 }
  for _, source in ipairs(checklists.SOURCES) do
    for i, line in ipairs(source.lines) do
      local found = by_name[line[2]]
      lines[#lines + 1] = { source = source.name, number = i, text = line[1], state = found.state,
        finding = found }
      counts[found.state] = counts[found.state] + 1
    end
  end
  return lines, counts
end

local function advice(s, opt)
  local trial = s.net and s.args and trial_of.new(s, opt.seconds) or nil
  s.untrained = trial and s.profile and trial:refusal() or nil
  if s.untrained then trial = nil end -- what ran was profiled: that much can be told
  local run = run_of.new(s, trial, opt)
  local function evaluate()
    if not run.profile then
      run.profile = trial:observe { roof = opt.roof, lines = false }
    end
    return all_of(run)
  end
  local findings = trial and trial:inside(evaluate) or evaluate()
  local a = setmetatable({ findings = findings, by_name = {}, profile = run.profile,
    what = s.what, net = s.name, rows = s.rows, device = s.device, others = s.others,
    raised = s.raised }, Advice)
  for _, found in ipairs(findings) do a.by_name[found.name] = found end
  a.lines, a.counts = lines_of(a.by_name)
  return a
end

-- -- The call -----------------------------------------------------------------------------------

local function is_options(value)
  return type(value) == 'table' and getmetatable(value) == nil and value[1] == nil
    and type(value.each) ~= 'function'
end

local function of_trainer(trainer, data, opts)
  if opts == nil and is_options(data) then data, opts = nil, data end
  return subject.of_trainer(trainer, data), options.check(COMMON, opts, 'advise')
end

local function of_net(net, x, opts)
  if not ref.is(x) then
    blame.raise('advise: an input is expected behind the net, a tensor, got ' .. blame.show(x),
      'EARG')
  end
  local opt = options.check(NET, opts, 'advise')
  if opt.target ~= nil then ref.need(opt.target, 'advise') end
  return subject.of_net(net, x, opt), opt
end

--- Evaluate the checklists of the documents on a run: each line applies, does not, or could not be
--- told, with what was measured, why, and what to try next with what measures that. Variants of a
--- pass (forward, loss, back) run against each other in pairs; all that they change is put back.
---@param what table|function a Trainer; a net; or a function, which is run and looked on at
---@param data any behind a Trainer a loader or tensors {x, y}, where it has not fitted yet; behind
---  a net an input; behind a function options
---@param opts table|nil seconds = 20, roof = 'stored'; of a net also target =, loss =, optimizer =,
---  loader =, autocast =, scaler =
---@return table advice findings, a list of { name, state ('applies', 'no', 'unknown'), measured,
---  why, try (list of { what, measure }), lines (those of the documents that it answers), urgent
---  (true: what is not finite, or diverges; these come first) };
---  by_name; lines, a list of { source, number, text, state, finding } that prints as a table;
---  counts of them by state; profile; tostring shows it
-- >> net = ridge.nn.Sequential(ridge.nn.Linear(64, 64), ridge.nn.ReLU(), ridge.nn.Linear(64, 8))
-- >> a = ridge.advise(net, ridge.randn(32, 64), { seconds = 2 })
-- >> a.by_name.batch_size.measured
function M.advise(what, data, opts)
  if C.rg_capturing() == 1 then
    blame.raise('advise: a capture is under way, and trials would be part of it', 'ECAPTURE')
  end
  if nn.is_module(what) then return advice(of_net(what, data, opts)) end
  if type(what) == 'table' and getmetatable(what) == require('ridge.train.trainer').Trainer then
    return advice(of_trainer(what, data, opts))
  end
  if type(what) ~= 'function' then
    blame.raise(('advise: a Trainer, a net and an input, or a function is expected, got %s'):format(
      blame.show(what)), 'EARG')
  end
  local opt = options.check(COMMON, data, 'advise')
  return advice(subject.of_run(what, { roof = opt.roof, lines = false }), opt)
end

require('ridge.types').register('Advice', function(value)
  return getmetatable(value) == Advice
end, {
  properties = { findings = 'list: state, measured, why, what to try',
    by_name = 'the same by name', lines = 'list: each line of the documents',
    counts = 'of lines: applies, no, unknown', profile = 'the profile that they are told from' },
})

guard.all(Advice)

return M
