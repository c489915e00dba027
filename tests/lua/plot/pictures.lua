-- SPDX-License-Identifier: MIT
--
-- Pictures over rows of round numbers, whose strokes are approved (approved_spec.lua). Each has a
-- name, a kind, rows, options, and how it is rendered; `brief` ones are told by their sentences.

local M, LIST = {}, {}

local function picture(name, kind, rows, opt, given)
  LIST[#LIST + 1] = { name = name, kind = kind, rows = rows, opt = opt, given = given or {} }
end

local function brief(name, kind, rows, opt)
  LIST[#LIST + 1] = { name = name, kind = kind, rows = rows, opt = opt, brief = true }
end

local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

local ABOUT = { device = 'a box, 2 threads', commit = '4f2a91c', date = '2025-06-14' }

-- A measured row: the phase `fwd` of so many ns, known to `half` of it.
local function took(columns, ns, half, grade)
  return with({ state = 'ok', grade = grade or 'A', fwd = ns, fwd_lo = ns * (1 - (half or 0.02)),
    fwd_hi = ns * (1 + (half or 0.02)), fwd_p95 = ns * 1.2, fwd_n = 50 }, columns)
end

-- Maps ----------------------------------------------------------------------------------------

-- 3 x 3 cells of two types, with each cause that a cell can have for being empty, and each grade.
local function causes()
  local rows = {}
  local function at(dtype, width, batch, ns, grade)
    rows[#rows + 1] = took({ dtype = dtype, width = width, batch = batch }, ns, nil, grade)
  end
  local function none(dtype, width, batch, state, reason)
    rows[#rows + 1] = { dtype = dtype, width = width, batch = batch, state = state,
      reason = reason }
  end
  at('f32', 64, 1, 1000)
  at('f32', 64, 8, 4000, 'B')
  at('f32', 64, 32, 500, 'D') -- disturbed: not the best
  at('f32', 128, 1, 2000, 'C')
  at('f32', 128, 8, 8000)
  none('f32', 128, 32, 'oom', 'needs 9 GB')
  none('f32', 256, 1, 'timeout')
  none('f32', 256, 8, 'infeasible', 'no divisor')
  none('f32', 256, 32, 'error', 'one')
  at('bf16', 64, 1, 1500)
  at('bf16', 64, 1, 1200) -- three in one cell: the middle one is drawn
  at('bf16', 64, 1, 9000)
  at('bf16', 128, 8, 123456)
  none('bf16', 64, 8, 'error', 'another')
  none('bf16', 64, 32, 'crashed')
  none('bf16', 128, 1, 'implied')
  none('bf16', 128, 32, 'pending')
  none('bf16', 256, 1, 'running') -- 256, 8 is not there
  at('bf16', 256, 32, 100)
  return rows
end

local XY = with(ABOUT, { x = 'width', y = 'batch', z = 'fwd', facet = 'dtype' })
picture('map-causes', 'map', causes, XY)
picture('map-causes-dark', 'map', causes, with(XY, { layer = nil, facet = 'none' }),
  { theme = 'dark', size = { 480, 560 } })

-- Sketched layers against the dense one; 2 T R = 1024 * 512 / 1536 = 341.3.
local function sketched()
  local rows = {}
  local fixed = { dtype = 'f32', batch = 128, in_features = 1024, out_features = 512 }
  rows[1] = took(with(fixed, { layer = 'dense', param_count = 524800, peak_memory_mb = 6,
    rel_error = 0 }), 4e5, 0.05)
  for _, terms in ipairs { 2, 4, 8 } do
    for _, rank in ipairs { 16, 32, 64 } do
      local k = 2 * terms * rank
      local row = took(with(fixed, { layer = 'sketched', num_terms = terms, low_rank = rank,
        param_count = k * 768 + 512, peak_memory_mb = k / 64, rel_error = 8 / k }), 1250 * k, 0.02,
        k == 128 and terms == 4 and 'D' or k == 512 and 'C' or 'A')
      rows[#rows + 1] = row
      rows[#rows + 1] = k == 1024 and with(fixed, { layer = 'lowrank', num_terms = terms,
        low_rank = rank, state = 'infeasible', reason = 'more than full rank' })
        or took(with(fixed, { layer = 'lowrank', num_terms = terms, low_rank = rank,
          param_count = k * 1536, peak_memory_mb = k / 48, rel_error = 6 / k }), 1200 * k)
    end
  end
  return rows
end

picture('map-speed-up', 'map', sketched, with(ABOUT, { ratio = true }))
picture('map-speed-up-dark', 'map', sketched, { ratio = true }, { theme = 'dark' })

-- Rates, of which more is better, in cells too small for numbers, or for marks.
local function rates(columns, lines)
  return function()
    local rows = {}
    for i = 1, columns do
      for j = 1, lines do
        rows[#rows + 1] = { state = 'ok', n = i * 16, m = j, fwd_gflops = i * j,
          grade = i == j and 'D' or (i + j) % 5 == 0 and 'C' or 'A' }
      end
    end
    return rows
  end
end

local RATE = { x = 'n', y = 'm', z = 'fwd_gflops' }
picture('map-rates', 'map', rates(14, 5), RATE, { size = { 480, 400 } })
picture('map-tiny-cells', 'map', rates(60, 3), RATE, { size = { 480, 400 } })
picture('map-one', 'map', function() return { took({ kind = 'a', batch = 4 }, 1500) } end,
  { x = 'kind', y = 'batch' })
picture('map-words', 'map', function()
  local rows = {}
  for i, kind in ipairs { 'naive', 'blocked', 'a name that is long' } do
    for j, share in ipairs { 0.25, 0.5 } do
      rows[#rows + 1] = { impl = kind, share = share, batch_per_s = i * j * 1e4, state = 'ok' }
    end
  end
  return rows
end, { x = 'impl', y = 'share', z = 'batch_per_s', better = 'lower' })

local function quiet()
  local rows = {}
  for i, width in ipairs { 64, 128, 256, 512 } do
    for j, batch in ipairs { 1, 8 } do
      local row = took({ width = width, batch = batch, fwd_passes = 6 + i,
        trial = #rows + 1 }, 1000 * i * j)
      row.fwd_quiet = (i + j) % 4 ~= 0 and 800 * i * j or nil
      row.fwd_quiet_lo = row.fwd_quiet and 790 * i * j
      row.fwd_quiet_hi = row.fwd_quiet and 820 * i * j
      rows[#rows + 1] = row
    end
  end
  return rows
end

local QUIET = { x = 'width', y = 'batch', z = 'fwd', time = 'quiet' }
picture('map-quiet', 'map', quiet, QUIET, { size = { 560, 480 } })
brief('map-med', 'map', quiet, { x = 'width', y = 'batch', z = 'fwd', device = 'gpu' })
brief('map-simulated', 'map', function()
  local rows = quiet()
  rows[3].flags = 'FEW SIMULATED'
  return rows
end, { x = 'width', y = 'batch', z = 'fwd', device = 'gpu' })

-- bf16 against f32: wins, loses, undecided, disturbed, missing, and side by side in every pass.
local function two_types()
  local rows = {}
  local ratio = { 0.5, 2, 1.01, 0.25, 0.8, 1.3 }
  for i, width in ipairs { 64, 128, 256 } do
    for j, batch in ipairs { 1, 8 } do
      local k = (i - 1) * 2 + j
      rows[#rows + 1] = took({ trial = 2 * k, dtype = 'f32', width = width, batch = batch },
        1000 * k)
      rows[#rows + 1] = took({ trial = 2 * k + 1, dtype = 'bf16', width = width, batch = batch },
        1000 * k * ratio[k], nil, k == 4 and 'D')
    end
  end
  rows[9].state, rows[9].fwd, rows[9].reason = 'oom', nil, 'needs 9 GB'
  return rows
end

local SIDES = with(XY, { a = 'dtype=f32', b = 'dtype=bf16' })
picture('ratio', 'ratio', two_types, SIDES, { size = { 640, 520 } })
picture('ratio-in-passes', 'ratio', function()
  local rows = two_types()
  for i = 2, 8, 2 do -- bf16 over f32 within the passes
    rows[i].partner = rows[i - 1].trial
    rows[i].fwd_ratio = i == 2 and 0.98 or i == 4 and 1.02 or rows[i].fwd / rows[i - 1].fwd
    rows[i].fwd_ratio_lo = i ~= 6 and rows[i].fwd_ratio - 0.01 or nil
    rows[i].fwd_ratio_hi = i ~= 6 and rows[i].fwd_ratio + 0.01 or nil
  end
  return rows
end, SIDES, { theme = 'dark', size = { 640, 520 } })
-- Three paths: told apart, in touch, disturbed, alone, all failed.
local function three_paths()
  local rows, over = {}, { own = { 1, 1, 1, 1, 1, 1 }, onednn = { 2, 0.5, 1.01, 0.25, 0.8, 1.3 },
    openblas = { 4, 0.75, 1.02, 0.5, 3, 1.1 } }
  for i, width in ipairs { 64, 128, 256 } do
    for j, batch in ipairs { 1, 8 } do
      local k = (i - 1) * 2 + j
      for n, path in ipairs { 'own', 'onednn', 'openblas' } do
        local row = took({ trial = 10 * k + n, path = path, width = width, batch = batch },
          1000 * k * over[path][k], nil, k == 4 and n == 2 and 'D')
        if k == 5 and n > 1 or k == 6 then row.state, row.fwd = 'oom', nil end
        rows[#rows + 1] = row
      end
    end
  end
  return rows
end
local OF_PATHS = { x = 'width', y = 'batch', z = 'fwd', of = 'path' }
picture('winner', 'winner', three_paths, OF_PATHS, { size = { 640, 520 } })
picture('winner-dark', 'winner', three_paths, OF_PATHS, { theme = 'dark' })
brief('ratio-of-rates', 'ratio', function()
  local rows = {}
  for i, impl in ipairs { 'own', 'other' } do
    for n = 1, 5 do
      rows[#rows + 1] = { impl = impl, n = n, m = 1, fwd_gflops = 10 * n * i, state = 'ok',
        fwd_gflops_lo = 9 * n * i, fwd_gflops_hi = 11 * n * i }
    end
  end
  return rows
end, { x = 'n', y = 'm', z = 'fwd_gflops', a = 'impl=own', b = 'impl=other' })

local function roofs()
  local rows = {}
  for i, width in ipairs { 64, 128, 256 } do
    for j, batch in ipairs { 1, 8, 64 } do
      rows[#rows + 1] = took({ width = width, batch = batch, fwd_roof = 10 * i * j,
        fwd_bound = i + j > 4 and 'compute' or j == 1 and 'DRAM' or 'L2' }, 1000 * i * j, 0.01,
        i * j == 9 and 'D' or i * j == 6 and 'C')
    end
  end
  rows[2].fwd_roof, rows[2].state = nil, 'timeout'
  return rows
end

local EFFICIENCY = { x = 'width', y = 'batch', z = 'fwd' }
picture('efficiency', 'efficiency', roofs, with(EFFICIENCY, ABOUT), { size = { 640, 520 } })

picture('uncertainty', 'uncertainty', function()
  local rows = {}
  for i, half in ipairs { 0.001, 0.01, 0.05, 0.2, 1.5 } do
    rows[i] = took({ width = 2 ^ i, batch = 1 }, 1000, half)
  end
  rows[6] = took({ width = 64, batch = 1 }, 1000)
  rows[6].fwd_lo, rows[6].fwd_hi = nil, nil
  rows[7] = took({ width = 128, batch = 1 }, 1000, 0) -- the clock saw no difference
  return rows
end, EFFICIENCY, { size = { 640, 440 } })

-- Lines ---------------------------------------------------------------------------------------

-- A power law of exponent 2, one of 1, and one that is none; bytes that pass two caches.
local function powers()
  local rows = {}
  for _, dtype in ipairs { 'f32', 'bf16' } do
    for b, batch in ipairs { 1, 8, 64 } do
      for i, width in ipairs { 16, 32, 64, 128, 256 } do
        local ns = b == 1 and width ^ 2 or b == 2 and 100 * width
          or ({ 9000, 90000, 9000, 90000, 9000 })[i]
        rows[#rows + 1] = took({ dtype = dtype, batch = batch, width = width,
          fwd_bytes = width * 1024 }, ns, 0.2, i == 3 and 'D')
      end
    end
  end
  rows[3].state = 'oom'
  return rows
end

local OVER = { x = 'width', y = 'fwd' }
picture('slices', 'slices', powers, with(with(OVER, ABOUT), { by = 'batch', facet = 'dtype',
  l1d = 32768, l2 = 131072, l3 = 1e9 }))
picture('slices-name-below', 'slices', function() -- two caches of nearly one size
  return { took({ width = 256, fwd_bytes = 2 ^ 18 }, 5000),
    took({ width = 512, fwd_bytes = 2 ^ 19 }, 64000), took({ width = 99, fwd_bytes = 9 }, 60000) }
end, with(OVER, { l1d = 500 * 1024, l2 = 505 * 1024 }), { size = { 600, 460 } })
picture('slices-one-line', 'slices', function()
  return { took({ width = 3 }, 300), took({ width = 1 }, 100), took({ width = 2 }, 200),
    { width = 4, state = 'error' }, took({ width = 5 }, 500), took({}, 9) }
end, OVER, { theme = 'dark', size = { 600, 460 } })
picture('slices-many-points', 'slices', function()
  local rows = {}
  for i = 1, 90 do rows[i] = { n = i, v = 200 - i, v_lo = 190 - i, v_hi = 210 - i } end
  return rows
end, { x = 'n', y = 'v' }, { size = { 600, 460 } })
picture('slices-three-panels', 'slices', function()
  local rows = {}
  for i, impl in ipairs { 'a', 'b', 'c' } do
    for n = 1, 3 do
      rows[#rows + 1] = { n = n, v = n * i - 4, impl = impl, threads = n % 2 == 0 }
    end
  end
  rows[#rows + 1] = { n = 1, v = 0 / 0, impl = 'a', state = 'error' } -- in no panel
  return rows
end, { x = 'n', y = 'v', by = 'threads', facet = 'impl' }, { size = { 900, 700 } })

local function teeth(rate_of)
  return function()
    local rows = {}
    for n = 1, 40 do
      local rate = rate_of(n)
      rows[n] = { n = n, rate = rate, rate_lo = rate * 0.98, rate_hi = rate * 1.02, state = 'ok' }
    end
    return rows
  end
end

-- Tiles of 8: one more than a multiple of 8 costs 1 - 9 / 16 = 44 % after 8, less after more.
local tiles = teeth(function(n) return 100 * n / (math.ceil(n / 8) * 8) end)
picture('steps', 'steps', tiles, { x = 'n', y = 'rate', better = 'higher' },
  { size = { 700, 420 } })
brief('steps-none', 'steps', teeth(function() return 100 end),
  { x = 'n', y = 'rate', better = 'higher' })
brief('steps-lower', 'steps', tiles, { x = 'n', y = 'rate', better = 'lower' })
picture('steps-by', 'steps', function()
  local rows = {}
  for i, impl in ipairs { 'own', 'other' } do
    for n = 1, 12 do rows[#rows + 1] = { n = n, rate = i * n, impl = impl } end
  end
  return rows
end, { x = 'n', y = 'rate', by = 'impl', tile = 5 }, { theme = 'dark', size = { 600, 420 } })

local function factors()
  local rows = {}
  for i, dtype in ipairs { 'f32', 'bf16' } do
    for j, batch in ipairs { 1, 2, 4 } do
      for _, order in ipairs { true, false } do
        rows[#rows + 1] = took({ dtype = dtype, batch = batch, order = order, one = 7,
          layout = order and 'nt' or 'nn' }, 100 * i * j)
      end
    end
  end
  rows[#rows + 1] = took({ dtype = 'f32', batch = 1, order = true, layout = 'nn' }, 1e9, 0.1, 'D')
  return rows
end

picture('effects', 'effects', factors, { y = 'fwd', params = 'order, dtype,batch,layout,one' })
picture('effects-one', 'effects', factors, with(ABOUT, { y = 'fwd', params = 'batch' }),
  { theme = 'dark', size = { 480, 420 } })

local function under_roofs(with_ceilings)
  return function()
    local rows = {}
    for i, dtype in ipairs { 'f32', 'bf16' } do
      for j, size in ipairs { 8, 64, 512 } do
        local flops = 2 * size ^ 3
        rows[#rows + 1] = took({ dtype = dtype, size = size, fwd_flops = flops,
          fwd_bytes = 12 * size ^ 2 / i }, flops / (5 * j * i), 0.1)
      end
    end
    rows[7] = took({ dtype = 'bf16', size = 4096, fwd_flops = 1e9, fwd_bytes = 1e6 }, 1000, 2)
    rows[8] = took({ dtype = 'f32', size = 1, fwd_flops = 0, fwd_bytes = 8 }, 5)
    for _, roof in ipairs(with_ceilings and { { 'fma.f32', 5e10 }, { 'amx.bf16', 4e11 },
        { 'bw.l2', 1e11 }, { 'bw.dram', 2e10 }, { 'bw.other', 1 } } or {}) do
      rows[#rows + 1] = { roof = roof[1], value = roof[2], value_lo = roof[2] * 0.9,
        value_hi = roof[2] * 1.1, state = 'ceiling' }
    end
    rows[#rows + 1] = with_ceilings and { roof = 'fma.f32', value = 9e13, state = 'ceiling' } or nil
    return rows
  end
end

picture('roofline', 'roofline', under_roofs(true), { y = 'fwd', from = 'dtype=f32',
  to = 'dtype=bf16', device = 'a box' })
picture('roofline-bare', 'roofline', under_roofs(false), { y = 'fwd', by = 'size' },
  { theme = 'dark', size = { 700, 520 } })

-- Fast and wrong to slow and right, with what is beaten, disturbed, and beaten within doubt.
local function trade()
  local rows = {}
  local error_at = { 0.9, 0.5, 0.45, 0.42, 0.2, 0.19, 0.18, 0.02 }
  for i, e in ipairs(error_at) do
    rows[i] = took({ width = i, impl = i % 2 == 0 and 'own' or nil, error = e }, 100 * i, 0.1)
  end
  rows[9] = took({ width = 9, error = 0.95 }, 300, 0.1) -- beaten by 1 and 2
  rows[10] = took({ width = 10, error = 0.51 }, 205, 0.5) -- by 2, within doubt
  rows[11] = took({ width = 11, error = 0.001 }, 90, 0.1, 'D')
  rows[12] = { width = 12, state = 'oom', reason = 'too wide' }
  return rows
end

picture('pareto', 'pareto', trade, with(ABOUT, { x = 'fwd', y = 'error', label = 'width, impl' }),
  { size = { 760, 560 } })
picture('pareto-higher', 'pareto', trade, { x = 'error', y = 'fwd', better_x = 'higher',
  better_y = 'higher' }, { theme = 'dark', size = { 560, 460 } })

local function compared(n, own)
  return function()
    local rows = {}
    local ratio = { 1.4, 0.5, 1.01, 0.97 }
    local verdict = { 'slower', 'faster', 'equal', 'open' }
    for i = 1, n do
      local k = (i - 1) % 4 + 1
      rows[i] = { pair = own and 'width ' .. i or '', a = own and 'impl=naive' or 'width ' .. i,
        b = own and 'impl=blocked' or '', ratio = ratio[k], ratio_lo = k ~= 4 and ratio[k] * 0.9
        or nil, ratio_hi = k ~= 4 and ratio[k] * 1.1 or nil, verdict = verdict[k],
        margin = own and 0.03, floor = own and 0.02, state = 'ok' }
    end
    if own then rows[1].ratio_lo, rows[2].ratio_hi = -1, 1 / 0 end
    return rows
  end
end

picture('forest', 'forest', compared(4, true), ABOUT)
picture('forest-pairs', 'forest', compared(3, false), {}, { theme = 'dark', size = { 640, 440 } })
brief('forest-many', 'forest', compared(63, true), {})

-- Samples -------------------------------------------------------------------------------------

local function samples(trials, timed)
  return function()
    local rows = {}
    for trial = 1, trials do
      for i = 1, 16 do
        rows[#rows + 1] = { trial = trial, point = 'batch ' .. trial, sample = 17 - i,
          ns = 1000 * trial + 10 * ((17 - i) * 7 % 16) + (i == 5 and 900 or 0),
          at = timed and (17 - i) * 1e8 + (i <= 8 and 2e9 or 0) or nil, disturbed = i == 5,
          grade = trial > 1 and 'B' or nil,
          flags = trial == 2 and 'DRIFT SWITCH FEW COLD WARM NOISE' or trial == 3 and 'FEW' or '' }
      end
    end
    return rows
  end
end

picture('samples', 'samples', samples(2, true), with(ABOUT, { y = 'fwd' }))
picture('samples-untimed', 'samples', samples(1, false), {}, { theme = 'dark',
  size = { 560, 420 } })
brief('samples-many', 'samples', samples(6, true), {})
picture('distribution', 'distribution', samples(2, true), with(ABOUT, { y = 'fwd' }),
  { size = { 640, 480 } })
picture('distribution-bars', 'distribution', samples(2, true), { histogram = true },
  { theme = 'dark', size = { 640, 480 } })
brief('distribution-many', 'distribution', function()
  local rows = {}
  for i = 1, 200 do
    rows[i] = { trial = 1, point = 'batch 1', sample = i, ns = 100 + i, state = 'ok' }
  end
  return rows
end, {})

-- Threads, days, steps ------------------------------------------------------------------------

local function scaling(with_other)
  return function()
    local rows = {}
    for _, n in ipairs { 1, 2, 4, 8 } do -- a tenth is serial
      rows[#rows + 1] = took({ threads = n, impl = 'own' }, 1e6 * (0.1 + 0.9 / n), 0.05)
      rows[#rows + 1] = with_other and took({ threads = n, impl = 'other' }, 2e6 / n, 0.01,
        n == 8 and 'D') or nil
    end
    return rows
  end
end

picture('threads', 'threads', scaling(true), with(ABOUT, { y = 'fwd', by = 'impl' }),
  { size = { 700, 640 } })
brief('threads-alone', 'threads', scaling(false), { y = 'fwd' })
picture('threads-one', 'threads', function() return { took({ threads = 4 }, 100) } end,
  { y = 'fwd' }, { theme = 'dark', size = { 560, 560 } })

local DAY = 8.64e10 -- microseconds; 1.7e15 is 2023-11-14

local function days(lines)
  return function()
    local rows = {}
    for run = 1, 4 do
      for i = 1, lines do
        local moved = run == 3 and i == lines and 1.5 or 1
        rows[#rows + 1] = took({ run = 'r' .. run, width = 64 * i, began = 1.7e15 + (5 - run) * DAY
          + i, commit = run < 3 and 'bbbbbbbbb' or run == 3 and 'aaaaaaaaa' or nil,
          env = run == 1 and 'other' or 'one' }, 1000 * i * moved, 0.02,
          run == 2 and i == 2 and 'D')
      end
    end
    return rows
  end
end

picture('history', 'history', days(2), with(ABOUT, { y = 'fwd', by = 'width' }),
  { size = { 760, 480 } })
brief('history-many', 'history', days(11), { y = 'fwd', by = 'width', other_protocol = 2 })
brief('history-one', 'history', function() return { took({ run = 'a', began = 1.7e15 }, 5) } end,
  { y = 'fwd' })

local function curves(names, steps)
  return function()
    local rows = {}
    for i, name in ipairs(names) do
      for step = 1, steps do
        rows[#rows + 1] = { point = name, seconds = step * i, loss = step == 3 and i == 1 and 0 / 0
          or i / step, state = 'ok' }
      end
    end
    rows[#rows + 1] = { point = 'nothing', seconds = 1, loss = 0 / 0 }
    return rows
  end
end

picture('training', 'training', curves({ 'small', 'large' }, 12), ABOUT, { size = { 700, 460 } })
picture('training-smooth', 'training', curves({ 'one' }, 5), { smooth = 2 },
  { theme = 'dark', size = { 560, 440 } })
brief('training-many', 'training', curves({ 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k',
  'l' }, 130), {})

local function calls(names)
  return function()
    local rows = {}
    for i, name in ipairs(names) do
      rows[#rows + 1] = { name = name, device = i == 4 and 'cuda:1' or 'cuda:0',
        stream = i % 2, begin_s = 5 + (i - 1) * 0.001, end_s = 5 + (i + 1) * 0.001 }
    end
    return rows
  end
end

picture('timeline', 'timeline', calls { 'copy', 'linear', 'relu', 'copy', 'linear', 'add', 'mul',
  'sum', 'exp', 'log' }, ABOUT)
picture('timeline-part', 'timeline', calls { 'copy', 'linear', 'relu' }, { from = 0.0015,
  to = 0.003 }, { theme = 'dark', size = { 560, 420 } })
brief('timeline-many', 'timeline', function()
  local rows = {}
  for i = 1, 26 do
    rows[i] = { name = 'a', device = 'd', stream = i, begin_s = 0, end_s = i }
  end
  return rows
end, {})
brief('timeline-one', 'timeline', function()
  return { { name = 'a', device = 'd', stream = 0, begin_s = 1, end_s = 2 },
    { name = 'b', device = 'd', stream = 0, begin_s = 1.5, end_s = 3 },
    { name = 'a', device = 'd', stream = 0, begin_s = 4, end_s = 5 } }
end, {})

local function memory(lines)
  return function()
    local rows = {}
    for i = 0, 20 do
      rows[#rows + 1] = { at_s = i / 1000, live = 2 ^ 20 * (2 + i % 7 + (i == 15 and 6 or 0)) }
    end
    for i = 1, lines do
      rows[#rows + 1] = { line = 'train.lua:' .. i, module = i % 2 == 0 and '1.2' or nil,
        bytes = 2 ^ 22 / i, blocks = i }
    end
    return rows
  end
end

picture('memory', 'memory', memory(3), ABOUT)
brief('memory-many', 'memory', memory(14), {})
brief('memory-unexplained', 'memory', memory(0), {})

-- What has a figure of its own ----------------------------------------------------------------

picture('landscape', 'landscape', sketched, with(ABOUT, { dtype = 'f32' }))
picture('landscape-two-batches', 'landscape', function()
  local rows = {}
  for _, row in ipairs(sketched()) do
    rows[#rows + 1] = row
    if row.num_terms ~= 8 then
      rows[#rows + 1] = row.fwd and with(row, { batch = 256, fwd = row.fwd * 2,
        fwd_lo = row.fwd_lo * 2, fwd_hi = row.fwd_hi * 2 })
    end
  end
  return rows
end, {}, { theme = 'dark' })

local function batches(timed)
  return function()
    local rows = {}
    for i, n in ipairs { 1, 2, 4, 6, 8, 16 } do
      rows[i] = { batch = n, peak_bytes = 1e6 * n, state = 'ok', grade = i == 3 and 'D' or 'A',
        n = 30, samples_per_s = timed and 1e5 * i or nil, samples_per_s_lo = timed and 0.9e5 * i
        or nil, samples_per_s_hi = timed and 1.1e5 * i or nil }
    end
    rows[7] = { batch = 32, state = 'oom', reason = 'needs 32 MB' }
    rows[8] = { batch = 24, peak_bytes = 24e6, state = 'ok', fits = false }
    return rows
  end
end

picture('batch', 'batch', batches(true), with(ABOUT, { best = 16, budget = 2e7, model = 'mlp',
  reason = 'more gains nothing' }), { size = { 640, 700 } })
picture('batch-memory', 'batch', batches(false), { budget = 2e7 }, { theme = 'dark',
  size = { 520, 460 } })
brief('batch-undecided', 'batch', batches(true), { best = 8, undecided = true, budget = 1e12 })
brief('batch-model', 'batch', batches(false), { best = 8, model = 'mlp' })

picture('stability', 'stability', function()
  local rows = {}
  for i = 1, 10 do
    rows[i] = { step = i, gradient_norm = i == 5 and 0 / 0 or 2 ^ i,
      clipped_norm = i ~= 5 and i ~= 7 and math.min(2 ^ i, 64) or nil,
      clipping_ratio = i > 6 and 1 - 64 / 2 ^ i or 0,
      nan = i == 5 and 3 or 0, inf = i == 5 and 1 or 0, overflow = 0, score = i / 10,
      stepped = i ~= 5 }
  end
  return rows
end, ABOUT)
picture('stability-calm', 'stability', function()
  return { { step = 1, gradient_norm = 2, nan = 0 }, { step = 2, gradient_norm = 3, nan = 0 },
    { step = 3, gradient_norm = 4, overflow = 1 } }
end, {}, { theme = 'dark', size = { 640, 480 } })

picture('trust', 'trust', function()
  local rows = {}
  for i = 1, 12 do
    rows[#rows + 1] = { kind = 'windows', at_s = i, ratio = i == 7 and 2 or 1 }
    rows[#rows + 1] = { kind = i % 3 == 0 and 'small' or 'linear', at_s = i, ratio = 1 + i / 100 }
  end
  return rows
end, with(ABOUT, { text = 'Within 12 %.' }), { size = { 640, 600 } })

M.LIST = LIST

return M
