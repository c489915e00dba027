-- SPDX-License-Identifier: MIT
--- Findings of ridge.advise on runs whose numbers are told: each condition on both sides of its
--- border, and the words that go with it.

local find = { machine = require 'ridge.advise.machine', memory = require 'ridge.advise.memory',
  speed = require 'ridge.advise.speed', training = require 'ridge.advise.training' }
local analyze = {}
local MB = 2 ^ 20

-- A run of which methods give what is told; a list is several values.
local function run_of(told, s, more)
  s = s or {}
  s.device = s.device or 'cpu'
  local run = { s = s, trial = {}, opt = {} }
  for name, value in pairs(told) do
    local list = type(value) == 'table' and value.n and value or { n = 1, value }
    run[name] = function() return unpack(list, 1, list.n) end
  end
  function run:why_no_trial() return 'no net' end -- luacheck: no self
  for key, value in pairs(more or {}) do run[key] = value end
  return run
end
local function none(why) return { n = 2, nil, why } end

-- A pair of times whose interval is told.
local function pair(lo, hi, more)
  local c = { ratio = (lo + hi) / 2, lo = lo, hi = hi, a_ns = 1e6, b_ns = 1e6 * (lo + hi) / 2,
    kind = 'bf16', steps = 3, peak_a = 2 * MB, peak_b = MB, loss_a = 1, loss_b = 1.5 }
  for key, value in pairs(more or {}) do c[key] = value end
  return c
end
local faster, slower, open = pair(0.5, 0.75), pair(1.25, 1.5), pair(0.75, 1.25)

-- A thin space stands before units.
local function with_spaces(text) return (text:gsub('\226\128\175', ' ')) end

local function check(group, name, run, state, why, measured)
  local got = find[group][name](run)
  local what = ('%s.%s: %s'):format(group, name, tostring(got.why))
  assert.equal(state, got.state, what)
  if why then assert.equal(why, with_spaces(got.why), what) end
  if measured then assert.matches(measured, with_spaces(got.measured), 1, true) end
  return got
end

describe('a finding of memory', function()
  local function needs(share, s, more)
    local told = { peak = share * 100 * MB, room = 100 * MB }
    for key, value in pairs(more or {}) do told[key] = value end
    return run_of(told, s)
  end

  it('of a step is on both sides of 80 %', function()
    check('memory', 'memory', needs(0.81, { rows = 7 }), 'applies', 'that is 81.0 % of it',
      'a pass of 7 rows needs 81 MB above what is there, of 100 MB that are free')
    check('memory', 'memory', needs(0.8), 'no', 'that is 80.0 % of it', 'a pass of 0 rows')
    check('memory', 'memory', run_of { peak = none 'why', room = 1 }, 'unknown', 'why')
    check('memory', 'memory', run_of { peak = 1, room = none '' }, 'unknown',
      'nobody says how much memory is free')
  end)

  it('of a pass that was tried and did not fit applies', function()
    local short = run_of({ peak = { n = 3, nil, 'memory: 1 MB more', true } },
      { trainer = { options = {} } })
    local words = 'a pass that was tried did not fit into memory'
    for _, name in ipairs { 'memory', 'splitting', 'accumulation' } do
      check('memory', name, short, 'applies', words, 'memory: 1 MB more')
    end
    short.s.trainer.options.split = true
    check('memory', 'splitting', short, 'no')
    -- for real: what raises for want of memory, and what raises otherwise
    local run = require('ridge.advise.run').new({ device = 'cpu' }, {}, {})
    run.trial.peak = function() require('ridge').empty(2 ^ 50) end
    check('memory', 'memory', run, 'applies', words)
    run = require('ridge.advise.run').new({ device = 'cpu' }, {}, {})
    run.trial.peak = function() error 'another reason' end
    check('memory', 'memory', run, 'unknown')
  end)

  it('counts what is cached as free, but for a limit, which is one of live bytes', function()
    local memory = require 'ridge.memory'
    local stats, system, told = memory.stats, memory.system, nil
    memory.stats = function() return told end
    memory.system = function() return { system_available_gb = 3, gpu_free_mb = 5 } end
    local function room(cached, limit, device)
      told = { live = 100 * MB, cached = cached * MB, limit = limit * MB }
      return require('ridge.advise.run').new({ device = device or 'cpu' }, nil, {}):room() / MB
    end
    local ok, err = pcall(function()
      assert.equal(3 * 1024, room(0, 0))
      assert.equal(3 * 1024 + 50, room(50, 0))
      assert.equal(5 + 50, room(50, 0, 'cuda:0'))
      assert.equal(400, room(50, 500))
      assert.equal(3 * 1024 + 50, room(50, 9000))
      memory.system = function() return {} end
      assert.equal(400, room(50, 500)) -- nobody says, but for the limit
    end)
    memory.stats, memory.system = stats, system
    assert(ok, err)
  end)

  it('of parts of batches is on both sides of 60 %', function()
    check('memory', 'splitting', needs(0.61), 'applies', 'another batch may not fit')
    check('memory', 'splitting', needs(0.6), 'no', 'every batch of this size fits')
    local on = { trainer = { options = { split = true } } }
    check('memory', 'splitting', needs(0.9, on), 'no',
      'split is on: it works batches off in parts', 'needs 90 MB')
    check('memory', 'splitting', run_of({ peak = none 'why', room = 1 }, on), 'no',
      'split is on: it works batches off in parts', 'why')
    check('memory', 'splitting', run_of { peak = none 'why', room = 1 }, 'unknown', 'why')
  end)

  -- What a net keeps, and with recomputation.
  local function keeps(share, params, saved, again)
    local lines = { { how = 'computed', recompute = false, saved_bytes = 1, step_ms = 1 },
      { how = 'measured', recompute = false, saved_bytes = saved, step_ms = 2 },
      { how = 'computed', recompute = true, saved_bytes = 1, step_ms = 1 },
      again and { how = 'measured', recompute = true, saved_bytes = again, step_ms = 3 } }
    analyze.asked = nil
    local a = { params = params, saved_bytes = saved, what_if = function(_, opts)
      analyze.asked = opts
      if not again then return { lines[1], lines[2], notes = { 'no chain' } } end
      return lines
    end }
    return needs(share, nil, { analysis = a })
  end

  it('of recomputation needs memory that is short, and less that is kept', function()
    check('memory', 'recompute', keeps(0.7, 1e6, 5 * MB, 2 * MB), 'applies',
      'memory is short, and 3 MB less are kept',
      '1 M parameters, 5 MB kept for the backward pass; recomputed 2 MB, in 1.50 of the time; a '
      .. 'pass of 0 rows')
    assert.same({ recompute = true, measure = true, rounds = 4 }, analyze.asked)
    check('memory', 'recompute', keeps(0.7, 1e6, 5 * MB, 5 * MB), 'no', 'it keeps no less')
    check('memory', 'recompute', keeps(0.7, 1e6, 5 * MB, 6 * MB), 'no', 'it keeps no less')
    check('memory', 'recompute', keeps(0.6, 1e6, 5 * MB, 2 * MB), 'no',
      'memory is not short, and it takes time')
    check('memory', 'recompute', keeps(0.7, 1e6, 5 * MB), 'no', 'no chain')
    check('memory', 'recompute', keeps(0.1, 500e6 + 1, 5 * MB, 6 * MB), 'applies',
      'it has more than 500 million parameters')
    check('memory', 'recompute', keeps(0.1, 500e6, 5 * MB, 6 * MB), 'no')
    local run = keeps(0.7, 1e6, 5 * MB, 2 * MB)
    function run:peak() return nil, 'nobody knows' end -- luacheck: no self
    check('memory', 'recompute', run, 'unknown', 'nobody knows', 'in 1.50 of the time')
    check('memory', 'recompute', run_of { analysis = none 'no net' }, 'unknown', 'no net')
  end)

  it('of accumulation needs rows that do not fit at once', function()
    check('memory', 'accumulation', needs(0.81, nil, { noise = 1 }), 'applies',
      'parts of a batch need less at once')
    local s = { rows = 8, accumulate = 4 }
    check('memory', 'accumulation', needs(0.41, s, { noise = 33 }), 'applies',
      'more rows in a step are wanted, and do not fit at once',
      'the gradient noise scale is 33 rows, a step has 32')
    check('memory', 'accumulation', needs(0.4, s, { noise = 33 }), 'no',
      'a larger batch fits at once')
    check('memory', 'accumulation', needs(0.41, s, { noise = 32 }), 'no',
      'a step needs no more rows than it has')
    check('memory', 'accumulation', needs(0.41, { rows = 8 }, { noise = 1 / 0 }), 'applies', nil,
      'more rows than a batch can tell, a step has 8')
    check('memory', 'accumulation', needs(0.5, s, { noise = none 'no loss' }), 'unknown', 'no loss')
    local run = needs(0.9, nil, { noise = 1 })
    run.trial = nil
    check('memory', 'accumulation', run, 'unknown', 'no net')
  end)

  it('of data in memory is on both sides of 30 %', function()
    local ridge = require 'ridge'
    local function loads(bytes, room)
      return run_of({ room = room }, { loader = { sources = { ridge.zeros(bytes / 4), 'file' } } })
    end
    check('memory', 'loading_memory', loads(304, 696), 'applies',
      'that is much of what there is', '304 B of data in memory, 696 B are free')
    check('memory', 'loading_memory', loads(300, 700), 'no', 'that is little of what there is')
    check('memory', 'loading_memory', run_of({ room = none '' },
      { loader = { sources = { ridge.zeros(1) } } }), 'unknown',
      'nobody says how much memory is free', '4 B of data in memory')
    check('memory', 'loading_memory', run_of({}, { loader = { sources = { 'file' } } }), 'no',
      'rows are read from files as they are used', 'no data in memory')
    check('memory', 'loading_memory', run_of({}, { loader = {} }), 'unknown')
    check('memory', 'loading_memory', run_of {}, 'no', 'there is nothing that it holds')
  end)
end)

describe('a finding of results that could be kept', function()
  local ridge = require 'ridge'

  -- A run whose loader gives these, one batch each.
  local function gives(list)
    local run = require 'ridge.advise.run'
    local loader = { at = 'there' }
    function loader:state() return self.at end
    function loader:load_state(at) self.at = at end
    function loader:each()
      local i = 0
      self.at = 'gone on'
      return function() i = i + 1 return list[i] end
    end
    return run.new({ loader = loader }, nil, {}), loader
  end
  local a, b = ridge.ones(2, 3), ridge.zeros(2, 3)
  local why = 'a cache of results would have no hits in an epoch; behind it the weights are others'

  it('counts inputs that come again, byte for byte, type and sizes', function()
    check('machine', 'result_cache', gives { a, b }, 'no', why,
      '0 of 2 inputs of the loader are as one before')
    check('machine', 'result_cache', gives { b, a, ridge.zeros(2, 3) }, 'unknown', nil,
      '1 of 3 inputs of the loader is as one before')
    check('machine', 'result_cache', gives { a, b, a, b, a }, 'unknown', nil,
      '3 of 5 inputs of the loader are as one before')
    check('machine', 'result_cache', gives { b, ridge.zeros(3, 2), ridge.zeros(2, 3):to 'i32' },
      'no', why, '0 of 3 inputs')
    local across = ridge.ones(3, 2)
    across:select(1, 1):fill_(2)
    across = across:transpose(1, 2)
    check('machine', 'result_cache', gives { across, across:clone() }, 'unknown', nil,
      '1 of 2 inputs')
  end)

  it('puts the loader back, and looks at no more than it says', function()
    local list = {}
    for i = 1, 300 do list[i] = ridge.ones(1) * i end
    local run, loader = gives(list)
    check('machine', 'result_cache', run, 'no', why, '0 of 200 inputs')
    assert.equal('there', loader.at)
    local large = ridge.zeros(2 ^ 21)
    check('machine', 'result_cache', gives { large, large, large, large, large, large }, 'unknown',
      nil, '3 of 4 inputs')
  end)

  it('is not told without a loader', function()
    check('machine', 'result_cache', require('ridge.advise.run').new({}, nil, {}), 'unknown',
      'one input is known: a loader tells whether any comes again')
    check('machine', 'result_cache', gives { a }, 'no', why, '0 of 1 inputs')
    check('machine', 'result_cache', gives { 'text' }, 'unknown',
      'the loader has given no tensors')
  end)
end)

describe('a finding of speed', function()
  it('of types is what its interval says', function()
    check('speed', 'mixed_precision', run_of { smaller_type = faster }, 'applies',
      'it is faster here', 'peak 1 MB beside 2 MB; sum of the output 1.5 beside 1')
    check('speed', 'mixed_precision', run_of { smaller_type = slower }, 'no',
      'it is not faster here')
    check('speed', 'mixed_precision', run_of { smaller_type = open }, 'unknown',
      'the interval holds 1')
    check('speed', 'mixed_precision', run_of({ smaller_type = faster }, { autocast = 'bf16' }),
      'no', 'it is on', nil)
    check('speed', 'mixed_precision', run_of({ smaller_type = open }, { autocast = 'bf16' }),
      'no', 'it is on')
    check('speed', 'mixed_precision', run_of({ smaller_type = slower }, { autocast = 'bf16',
      loss = print }), 'no', 'it is on, and here no faster: without it nothing would be rounded',
      'loss 1.5 beside 1')
    check('speed', 'mixed_precision', run_of { smaller_type = none 'why' }, 'unknown', 'why')
  end)

  it('of plans is what their interval says', function()
    check('speed', 'compile', run_of { plan = faster }, 'applies', 'its replay is faster',
      'a pass as a plan of 3 steps')
    local undecided = check('speed', 'compile', run_of { plan = open }, 'unknown',
      'the interval holds 1')
    assert.equal(2, #undecided.try) -- the plan first, then a machine that can tell
    assert.matches('^run it as a plan', undecided.try[1].what)
    assert.equal('a quiet machine', undecided.try[2].what)
    check('speed', 'compile', run_of { plan = slower }, 'no',
      'its replay is not faster: calls are not what bounds it')
    check('speed', 'compile', run_of({ plan = faster }, { compile = true }), 'no',
      'it is on: the trainer replays plans')
    check('speed', 'compile', run_of { plan = none 'why' }, 'unknown', 'why')
    check('speed', 'compile_fails', run_of { plan = { n = 3, nil, 'why', true } }, 'applies', nil,
      'why')
    check('speed', 'compile_fails', run_of { plan = { n = 3, nil, 'why', false } }, 'unknown',
      'why')
    check('speed', 'compile_fails', run_of { plan = slower }, 'no', 'it does not fail',
      'a plan of 3 steps was made and replayed')
  end)

  it('of graphs of a device is of devices alone', function()
    local gpu, graph = { device = 'cuda:0' }, pair(0.5, 0.75, { device_graph = true })
    check('speed', 'device_graph', run_of { plan = graph }, 'no',
      'CUDA graphs are of GPUs; a plan is replayed from C')
    check('speed', 'device_graph', run_of({ plan = graph }, gpu), 'applies',
      'it is one graph, and faster')
    check('speed', 'device_graph', run_of({ plan = pair(1.25, 1.5, { device_graph = true }) }, gpu),
      'no', 'it is one graph, and not faster')
    check('speed', 'device_graph', run_of({ plan = faster }, gpu), 'no',
      'this plan cannot be one graph')
    check('speed', 'device_graph', run_of({ plan = faster }, { device = 'cuda:0', compile = true }),
      'no', 'this plan cannot be one graph')
    check('speed', 'device_graph', run_of({ plan = graph }, { device = 'cuda:0', compile = true }),
      'no', 'its plans are CUDA graphs')
    check('speed', 'device_graph', run_of({ plan = none 'why' }, gpu), 'unknown', 'why')
  end)

  it('of batches is the cheapest below 90 % of a row', function()
    local function rows(...)
      local list = {}
      for i, p in ipairs { ... } do
        list[i] = { rows = 8 * 2 ^ i, ratio = (p[1] + p[2]) / 2, lo = p[1], hi = p[2], peak = MB,
          a_ns = 1e6 }
      end
      return run_of({ batches = list }, { rows = 8 })
    end
    check('speed', 'batch_size', rows({ 0.8, 0.89 }, { 0.85, 0.89 }), 'applies',
      '16 rows at once make each cheaper', 'beside 8 rows (1 ms), 16 rows: 0.84 of the time of a '
      .. 'row [0.80 .. 0.89], peak 1 MB; 32 rows')
    check('speed', 'batch_size', rows({ 0.8, 0.89 }, { 0.5, 0.6 }), 'applies',
      '32 rows at once make each cheaper')
    check('speed', 'batch_size', rows({ 0.8, 0.9 }, { 0.91, 0.95 }), 'no',
      'more rows at once are hardly cheaper')
    check('speed', 'batch_size', rows({ 0.8, 0.95 }, { 0.9, 0.95 }), 'unknown',
      'the interval does not say whether more rows at once are cheaper')
    check('speed', 'batch_size', run_of { batches = none 'why' }, 'unknown', 'why')
  end)

  it('of what takes the time begins at 5 %', function()
    for _, name in ipairs { 'copies', 'fusion' } do
      check('speed', name, run_of { share = { n = 2, 0.0499, 2 } }, 'no')
    end
    check('speed', 'copies', run_of { share = { n = 2, 0.05, 1 } }, 'applies',
      'they only move what is there already', 'copies take 5.0 %, in 1 call')
    local function fusion(plan, s) return run_of({ share = { n = 2, 0.05, 2 }, plan = plan }, s) end
    check('speed', 'fusion', fusion(faster), 'applies', 'the plan is faster',
      'take 5.0 %, in 2 calls; the plan, which fuses them')
    check('speed', 'fusion', fusion(open), 'unknown', 'the interval holds 1')
    check('speed', 'fusion', fusion(slower), 'no', 'fused they are not faster')
    check('speed', 'fusion', fusion(slower, { compile = true }), 'no',
      'the plans that it replays fuse them')
    check('speed', 'fusion', fusion(none 'why'), 'unknown', 'why')
  end)

  it('of a host that copies and waits is of its time', function()
    local function profile(of, s)
      return run_of({}, s, { profile = { ns = of[1], copy_ns = of[2], wait_ns = of[2] } })
    end
    local gpu = { device = 'cuda:0' }
    check('speed', 'transfers', profile { 100, 5 }, 'applies', 'the host waits for them',
      "copies between devices take 5.0 % of the host's time")
    check('speed', 'transfers', profile { 1000, 49 }, 'no', 'that is little')
    check('speed', 'transfers', profile { 0, 5 }, 'no', 'that is little', 'take 0.0 %')
    check('speed', 'waiting', profile({ 100, 10 }, gpu), 'applies',
      'it could ask for more meanwhile', 'the host waits for devices 10.0 % of the time')
    check('speed', 'waiting', profile({ 1000, 99 }, gpu), 'no', 'that is little')
    check('speed', 'waiting', profile({ 0, 99 }, gpu), 'no', 'that is little')
    check('speed', 'waiting', profile { 100, 10 }, 'no', 'the run is on the CPU')
  end)

  it('of an optimizer begins at a fifth', function()
    local o = { optimizer = setmetatable({}, { __name = 'SGD' }) }
    local section = { ns = 4e6, calls = 2 }
    check('speed', 'optimizer', run_of({ section = { n = 2, 0.2, section } }, o), 'applies',
      'what it reads and writes bounds the step', 'SGD takes 20.0 % of the time, 2 ms a step')
    check('speed', 'optimizer', run_of({ section = { n = 2, 0.199, section } }, o), 'no',
      'that is little beside the passes')
    check('speed', 'optimizer', run_of({ section = { n = 2, 0, nil } }, o), 'unknown',
      'the optimizer has taken no step in what was profiled')
    check('speed', 'optimizer', run_of {}, 'unknown',
      'no optimizer of ridge.optim has taken a step')
  end)

  it('of throughput tells of a row, of inference too where there is a net', function()
    local told = { batches = { { a_ns = 2e6 } }, latency = 5e5 }
    check('speed', 'throughput', run_of(told, { rows = 8 }), 'no',
      'it is tested here; ridge bench says more of a model',
      'training 4 k rows/s at 8 rows; inference of one row 500 µs')
    local run = run_of(told, { rows = 8 })
    run.trial = nil
    local got = check('speed', 'throughput', run, 'no', nil, 'training 4 k rows/s at 8 rows')
    assert.is_nil(got.measured:find('inference', 1, true))
    check('speed', 'throughput', run_of { batches = none 'why' }, 'unknown', 'why')
  end)

  it('of sizes that are no eights begins at 5 % of the time', function()
    local function products(ns, shapes)
      local run = run_of({}, {}, { profile = { ns = 1000, calls = { { op = 'linear', self_ns = ns,
        shapes = shapes } } } })
      run.trial = nil
      return run
    end
    local odd = 'f32[8,9] f32[16,9] -> f32[8,16]'
    check('speed', 'sizes', products(50, odd), 'unknown', 'no net',
      'products with a size that is no multiple of 8 take 5.0 %')
    check('speed', 'sizes', products(49, odd), 'no', 'that is little', 'take 4.9 %')
    check('speed', 'sizes', products(900, 'f32[8,24] f32[16,24] -> f32[8,16]'), 'no',
      'that is little', 'take 0.0 %')
  end)

  it('of data that is waited for begins at a tenth', function()
    local section = { ns = 4e6, calls = 2 }
    local function loading(share, s)
      return run_of({ section = { n = 2, share, section } }, s)
    end
    check('speed', 'loading', loading(0.0999), 'no', 'the run does not wait for its data')
    check('speed', 'loading', loading(0.1), 'applies', 'the run waits for its data',
      '10.0 % of the time goes by until batches are there, 2 ms each; processors: ')
    check('speed', 'loading', run_of { section = { n = 2, 0, nil } }, 'no',
      'there is no loader to wait for')
  end)
end)

describe('a finding of training', function()
  it('of noise is twice the step, or half of it', function()
    local s = { rows = 8, accumulate = 2 }
    check('training', 'noise', run_of({ noise = 33 }, s), 'applies',
      'the noise of a step is larger than its signal',
      'is 33 rows, estimated of 8 parts of a batch; a step has 16')
    for _, noise in ipairs { 32, 8 } do
      check('training', 'noise', run_of({ noise = noise }, s), 'unknown',
        'they are of one size, as far as an estimate of one batch can tell')
    end
    check('training', 'noise', run_of({ noise = 7.9 }, s), 'no',
      'the signal of a step is larger than its noise')
    check('training', 'noise', run_of({ noise = 1 / 0 }, { rows = 8 }), 'applies', nil,
      'is more rows than a batch can tell, estimated of 8 parts of a batch; a step has 8')
    check('training', 'noise', run_of { noise = none 'why' }, 'unknown', 'why')
  end)

  it('of a scale names the largest power of 2 that fits, of those down to 2^-40', function()
    -- gradients are finite up to a scale
    local function overflows(above, scale)
      local run = run_of({}, { loss = print, scaler = { factor = scale or 2 ^ 16 } })
      function run.trial.gradient_norm(_, opt) return opt.scale <= above and 1 or 1 / 0 end
      return run
    end
    for power, shown in pairs { [-40] = '9.09495e-13', [-39] = '1.81899e-12', [0] = '1',
        [15] = '32768' } do
      check('training', 'loss_scale', overflows(2 ^ power), 'applies',
        'it overflows: a smaller scale, not a larger one', 'with a scale of 65536: gradients are '
        .. 'not finite, 0 steps left out; at ' .. shown .. ' they are finite')
    end
    local none_fits = find.training.loss_scale(overflows(2 ^ -40.5))
    assert.matches('^at no scale are they finite: it is not of that', none_fits.why)
    check('training', 'loss_scale', overflows(2 ^ 16), 'no', 'the scale fits')
  end)

  it('of a schedule knows one by its rates, and 40 losses at least', function()
    local optimizer = { lr = function() return 0.5 end }
    local function run(n, f, s)
      local list = {}
      for i = 1, n do list[i] = f(i) end
      s = s or {}
      s.optimizer, s.losses = optimizer, list
      return run_of({ losses = { n = 3, list, nil, true } }, s)
    end
    local function falls(i) return 100 - i end
    local function stays(i) return i % 2 end
    check('training', 'schedule', run(40, falls), 'no', nil, 'a constant rate of 0.5; medians of '
      .. 'the second half 77 to 62')
    check('training', 'schedule', run(40, stays), 'applies', 'the loss has stopped to fall')
    -- of the second half alone
    check('training', 'schedule', run(40, function(i) return i <= 20 and falls(i) or i % 2 end),
      'applies', 'the loss has stopped to fall')
    -- what is not finite has not stopped to fall: another finding says why
    local function ends(i) return i <= 38 and falls(i) or i == 40 and 0 / 0 or 1 / 0 end
    check('training', 'schedule', run(40, ends), 'unknown', 'of the second half 2 losses are not '
      .. 'finite: a schedule is not what that wants')
    check('training', 'schedule', run(39, stays), 'unknown', '39 losses of the run are known: too '
      .. 'few to say whether it has stopped to fall')
    check('training', 'schedule', run(40, stays, { schedule = {} }), 'no', 'there is one',
      'a schedule steps it')
    check('training', 'schedule', run(40, stays, { rates = { 1, 1, 2 } }), 'no', 'there is one',
      'the rate changed while it ran')
    check('training', 'schedule', run(40, stays, { rates = { 1, 1, 1 } }), 'applies')
    check('training', 'schedule', run_of {}, 'unknown', 'no optimizer is known')
  end)

  it('of losses is beyond chance', function()
    local function run(f, n, own)
      local list = {}
      for i = 1, n do list[i] = f(i) end
      local r = run_of({ losses = { n = 3, list, nil, own } })
      r.trial = nil
      return r
    end
    local got = check('training', 'divergence', run(function(i) return i end, 20, true), 'applies',
      nil, '20 losses of the run, medians of quarters 3 to 18')
    assert.is_true(got.urgent)
    assert.matches('^it rises beyond chance, p = ', got.why)
    got = check('training', 'divergence', run(function(i) return -i end, 20, false), 'no', nil,
      '20 losses of as many steps on one batch, medians of quarters -3 to -18')
    assert.matches('^it falls beyond chance, p = ', got.why)
    check('training', 'divergence', run(function(i) return i % 2 end, 20, true), 'no',
      'it does not rise')
    -- a rate that spoils all at once: nothing rises from there on, and what falls stays above
    local function spoilt(first, second)
      return function(i) return i == 1 and first or i == 2 and second or 90 - i % 7 end
    end
    got = check('training', 'divergence', run(spoilt(2, 1e9), 21, true), 'applies', nil,
      'medians of quarters 86 to 86; the first 2')
    assert.matches('^all behind the first lie above it, by chance with p = 0.048', got.why)
    check('training', 'divergence', run(spoilt(2, 1e9), 20, true), 'no', 'it does not rise')
    check('training', 'divergence', run(spoilt(2, 2), 21, true), 'no', 'it does not rise')
    got = check('training', 'divergence', run(function(i) return i == 1 and 2 or 99 - i end, 40,
      true), 'applies')
    assert.is_true(got.urgent)
    got = check('training', 'divergence', run(function(i) return i == 3 and 1 / 0 or 1 end, 20,
      true), 'applies', nil, 'medians of quarters 1 to 1; 1 of them not finite')
    assert.is_true(got.urgent)
    check('training', 'divergence', run(function() return 0 / 0 end, 1, true), 'applies', nil,
      '1 loss of the run, medians of quarters none finite; 1 of them not finite')
    check('training', 'divergence', run_of { losses = none 'why' }, 'unknown', 'why')
  end)
end)

describe('a finding of the machine', function()
  it('of libraries is by the products that are faster by another one', function()
    local choices, machine = require 'ridge.choices', require 'ridge.advise.machine'
    local was = { choices.measured, choices.problem }
    choices.problem = function(row) return row.name end
    local function found(list)
      choices.measured = function(rounds)
        assert.equal(8, rounds)
        return list
      end
      return machine.backend(run_of({}, { device = 'cpu' }))
    end
    local same, better = { path = 'a', standard = 'a' }, { path = 'b', standard = 'a', name = 'p' }
    local ok, err = pcall(function()
      for _, case in ipairs { { {}, 'no', '0 products by each library' },
        { { same }, 'no', '1 product by each library' },
        { { { path = 'b' } }, 'no', '1 product by each library' },
        { { better }, 'applies', '1 product by each library; 1 is faster by another, p by b' },
        { { same, better, better }, 'applies',
          '3 products by each library; 2 are faster by another, p by b' } } do
        local got = found(case[1])
        assert.same({ case[2], case[3] }, { got.state, got.measured })
      end
    end)
    choices.measured, choices.problem = was[1], was[2]
    assert(ok, err)
  end)
end)

describe('a comparison', function()
  it('is of twelve pairs at most, in turn which goes first', function()
    local trial = require 'ridge.advise.trial'
    local C = require 'ridge.ffi.lib'
    local function spends(ms, order, mark)
      return function()
        order[#order + 1] = mark
        local begun = tonumber(C.rg_clock_ns())
        while tonumber(C.rg_clock_ns()) - begun < ms * 1e6 do end
      end
    end
    local net = require('ridge').nn.Linear(1, 1)
    local of = trial.new({ device = 'cpu', net = net, args = { n = 0 } }, 2)
    local methods = getmetatable(of).__index
    local order = {}
    local found = methods.pair({ seconds = 60 }, spends(9, order, 'a'), spends(9, order, 'b'))
    assert.equal(12, found.pairs)
    local turns = table.concat(order):gsub('^a+b+', '') -- behind what finds how long they take
    assert.equal(('abba'):rep(6):sub(1, 2 * found.pairs), ('ab' .. turns):sub(-2 * found.pairs))
    local nothing, why = methods.pair({ seconds = 0.1 }, spends(9, {}, 'a'), spends(9, {}, 'b'))
    assert.is_nil(nothing)
    assert.matches('of them do not fit into an eighth of seconds = 0.1', why, 1, true)
  end)
end)
