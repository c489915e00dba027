-- SPDX-License-Identifier: MIT
--- Findings of speed: types, plans, batches, what takes the time.

local choose = require 'ridge.data'
local memory = require 'ridge.memory'
local plain = require 'ridge.plain'
local run_of = require 'ridge.advise.run'
local say = require 'ridge.advise.say'
local tries = require 'ridge.profile.tries'
local unit = require 'ridge.show.unit'

local M = {}

local applies, no, unknown, open = say.applies, say.no, say.unknown, say.open
local time, bytes, percent = run_of.time, run_of.bytes, run_of.percent

local WORTH = 0.05  -- of the time: what is less is not worth a change
local MUCH = 0.1    -- of the time: waiting that is worth a change
local HEAVY = 0.2   -- of the time: as of bottlenecks
local BETTER = 0.9  -- of the time of a row, at most, for a batch that is worth a change

function M.mixed_precision(run)
  local c, why = run:smaller_type()
  if not c then return unknown(why, 'bf16') end
  local measured = ('a pass with products in %s: %s; peak %s beside %s; %s %.4g beside %.4g')
    :format(c.kind, run_of.beside(c), bytes(c.peak_b), bytes(c.peak_a),
    run.s.loss and 'loss' or 'sum of the output', c.loss_b, c.loss_a)
  local faster = run_of.is_faster(c)
  if run.s.autocast then
    return no(measured, ('it is on%s'):format(faster == false
      and ', and here no faster: without it nothing would be rounded' or ''))
  end
  if faster then return applies(measured, 'it is faster here', 'bf16') end
  if faster == nil then return open(measured, 'the interval holds 1', 'bf16', 'quiet') end
  return no(measured, 'it is not faster here')
end

function M.compile(run)
  local c, why = run:plan()
  if not c then return unknown(why, 'plan') end
  local measured = ('a pass as a plan of %d steps: %s'):format(c.steps, run_of.beside(c))
  local faster = run_of.is_faster(c)
  if run.s.compile then return no(measured, 'it is on: the trainer replays plans') end
  if faster then return applies(measured, 'its replay is faster', 'plan') end
  if faster == nil then return open(measured, 'the interval holds 1', 'plan', 'quiet') end
  return no(measured, 'its replay is not faster: calls are not what bounds it')
end

function M.compile_fails(run)
  local c, why, failed = run:plan()
  if failed then
    return applies(why, 'what a plan cannot have is named; the rest can be captured by itself',
      'other_modes')
  end
  if not c then return unknown(why, 'plan') end
  return no(('a plan of %d steps was made and replayed'):format(c.steps), 'it does not fail')
end

function M.device_graph(run)
  if run.s.device == 'cpu' then
    return no('the run is on the CPU', 'CUDA graphs are of GPUs; a plan is replayed from C')
  end
  local c, why = run:plan()
  if not c then return unknown(why, 'plan') end
  local measured = ('a plan of %d steps: %s'):format(c.steps, run_of.beside(c))
  if run.s.compile and c.device_graph then return no(measured, 'its plans are CUDA graphs') end
  if not c.device_graph then return no(measured, 'this plan cannot be one graph') end
  if run_of.is_faster(c) then return applies(measured, 'it is one graph, and faster', 'plan') end
  return no(measured, 'it is one graph, and not faster')
end

function M.batch_size(run)
  local list, why = run:batches()
  if not list then return unknown(why, 'batch') end
  local parts, best = {}, nil
  for i, each in ipairs(list) do
    parts[i] = ('%d rows: %.2f of the time of a row [%.2f .. %.2f], peak %s'):format(each.rows,
      each.ratio, each.lo, each.hi, bytes(each.peak))
    if each.hi < BETTER and (not best or each.ratio < best.ratio) then best = each end
  end
  local measured = ('beside %s (%s), %s'):format(plain.count(run.s.rows, 'row'),
    time(list[1].a_ns), table.concat(parts, '; '))
  if best then
    return applies(measured, ('%d rows at once make each cheaper'):format(best.rows), 'batch')
  end
  if list[#list].lo > BETTER then return no(measured, 'more rows at once are hardly cheaper') end
  return open(measured, 'the interval does not say whether more rows at once are cheaper', 'batch',
    'quiet')
end

function M.bottlenecks(run)
  local list = run.profile:bottlenecks()
  local measured = ('%s of the run profiled, %d operations'):format(time(run.profile.ns),
    #run.profile.operations)
  local found = list[1]
  if #run.profile.operations == 0 then return no(measured, 'there is nothing of ridge in it') end
  if not found then
    return no(measured, ('nothing takes more than %s'):format(
      percent(run.profile.options.threshold)))
  end
  measured = ('%s; %s takes %s of it'):format(measured, found.what, percent(found.share))
  local finding = applies(measured, ('it is bound by %s: %s'):format(tries.REASONS[found.reason],
    found.why))
  finding.try = tries.of(found.reason)
  return finding
end

function M.fusion(run)
  local share, calls = run:share(run_of.is_elementwise)
  local measured = ('operations that do less than a FLOP for each byte take %s, in %s')
    :format(percent(share), plain.count(calls, 'call'))
  if share < WORTH then return no(measured, 'there is little to fuse') end
  local c, why = run:plan()
  if not c then return open(measured, why, 'one_pass') end
  measured = ('%s; the plan, which fuses them: %s'):format(measured, run_of.beside(c))
  if run.s.compile then return no(measured, 'the plans that it replays fuse them') end
  local faster = run_of.is_faster(c)
  if faster then return applies(measured, 'the plan is faster', 'one_pass') end
  if faster == nil then return open(measured, 'the interval holds 1', 'one_pass', 'quiet') end
  return no(measured, 'fused they are not faster')
end

function M.copies(run)
  local share, calls = run:share(run_of.is_copy)
  local measured = ('copies take %s, in %s'):format(percent(share), plain.count(calls, 'call'))
  if share < WORTH then return no(measured, 'that is little') end
  return applies(measured, 'they only move what is there already', 'clones')
end

function M.transfers(run)
  local share = run.profile.ns > 0 and run.profile.copy_ns / run.profile.ns or 0
  local measured = ('copies between devices take %s of the host\'s time'):format(percent(share))
  if share < WORTH then return no(measured, 'that is little') end
  return applies(measured, 'the host waits for them', 'keep_there')
end

function M.waiting(run)
  local share = run.profile.ns > 0 and run.profile.wait_ns / run.profile.ns or 0
  local measured = ('the host waits for devices %s of the time'):format(percent(share))
  if run.s.device == 'cpu' then return no(measured, 'the run is on the CPU') end
  if share < MUCH then return no(measured, 'that is little') end
  return applies(measured, 'it could ask for more meanwhile', 'read_later')
end

-- -- Sizes --------------------------------------------------------------------------------------

local function padded(n) return math.ceil(n / 8) * 8 end

-- A product of random numbers of a size.
local function product(m, k, n, dtype, device)
  local ridge = require 'ridge'
  local x, w = ridge.randn(m, k, { device = device }):to(dtype),
    ridge.randn(n, k, { device = device }):to(dtype):transpose(1, 2)
  return function() memory.scope(x.matmul, x, w) end
end

function M.sizes(run)
  local worst, all = nil, 0
  for _, each in ipairs(run.profile.calls) do
    local m, k, n, dtype = run_of.sizes_of(each)
    if m and (k % 8 ~= 0 or n % 8 ~= 0 or m % 8 ~= 0) then
      local own = each.device_ns or each.self_ns
      all = all + own
      if not worst or own > worst.ns then
        worst = { ns = own, m = m, k = k, n = n, dtype = dtype }
      end
    end
  end
  local share = run.profile.ns > 0 and all / run.profile.ns or 0
  local measured = ('products with a size that is no multiple of 8 take %s'):format(percent(share))
  if share < WORTH then return no(measured, 'that is little') end
  if not run.trial then return open(measured, run:why_no_trial(), 'pad') end
  local w = worst
  local c, why = run.trial:pair(product(w.m, w.k, w.n, w.dtype, run.s.device),
    product(padded(w.m), padded(w.k), padded(w.n), w.dtype, run.s.device))
  if not c then return open(measured, why, 'pad') end
  measured = ('%s; %d x %d x %d at %d x %d x %d: %s'):format(measured, w.m, w.k, w.n, padded(w.m),
    padded(w.k), padded(w.n), run_of.beside(c))
  local faster = run_of.is_faster(c)
  if faster then return applies(measured, 'the larger product is faster', 'pad') end
  if faster == nil then return open(measured, 'the interval holds 1', 'pad', 'quiet') end
  return no(measured, 'the larger product is not faster')
end

-- -- Batches and steps --------------------------------------------------------------------------

-- The time that a loader like this one keeps a pass waiting, with threads; nil where that is none.
local function with_threads(run)
  local loader = run.s.loader
  if not run.trial or not loader or loader.pool or type(loader.sources) ~= 'table'
    or loader.home ~= 0 then
    return nil
  end
  local ok, ns, before = pcall(function()
    local n = math.min(2, run_of.cores())
    local other = choose.Loader(loader.sources, { batch = loader.batch, workers = n,
      shuffle = loader.generator ~= nil, seed = 1 })
    return run.trial:waiting_for(other, 10), run.trial:waiting_for(loader, 10)
  end)
  if ok then return ns, before end
end

function M.loading(run)
  local share, section = run:section 'data_loading'
  if not section then
    return no('no batch was loaded in what was profiled', 'there is no loader to wait for')
  end
  local measured = ('%s of the time goes by until batches are there, %s each; processors: %d')
    :format(percent(share), time(section.ns / section.calls), run_of.cores())
  if share < MUCH then return no(measured, 'the run does not wait for its data') end
  local ns, before = with_threads(run)
  if not ns then return applies(measured, 'the run waits for its data', 'threads_ahead') end
  measured = ('%s; with 2 threads %s each beside %s'):format(measured, time(ns), time(before))
  if ns < before / 2 then
    return applies(measured, 'threads gather them meanwhile', 'threads_ahead')
  end
  return open(measured, 'it waits for its data, and threads help little', 'threads_ahead')
end

function M.throughput(run)
  local list, why = run:batches()
  if not list then return unknown(why, 'batch') end
  local s = run.s
  local latency = run.trial and s.rows and run:latency()
  local measured = ('training %s rows/s at %s'):format(unit.format('count',
    s.rows / list[1].a_ns * 1e9), plain.count(s.rows, 'row'))
  if latency then
    measured = ('%s; inference of one row %s'):format(measured, time(latency))
  end
  return no(measured, 'it is tested here; ridge bench says more of a model')
end

function M.optimizer(run)
  local s = run.s
  if not s.optimizer then return unknown 'no optimizer of ridge.optim has taken a step' end
  local share, section = run:section 'optimizer_step'
  if not section then return unknown 'the optimizer has taken no step in what was profiled' end
  local measured = ('%s takes %s of the time, %s a step'):format(
    getmetatable(s.optimizer).__name, percent(share), time(section.ns / section.calls))
  if share < HEAVY then return no(measured, 'that is little beside the passes') end
  return applies(measured, 'what it reads and writes bounds the step', 'cheaper_optimizer', 'batch')
end

return M
