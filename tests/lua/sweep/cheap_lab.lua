-- SPDX-License-Identifier: MIT
-- A laboratory without the core, for tests of the sweep's own work: a plan is a Lua function, its
-- "time" is what it returns. Everything the real one does around that is left out or counted.

local M = {}

--- A new laboratory; its fields may be replaced.
function M.new()
  local lab = { blocks = {}, orders = {}, seeds = {}, shifts = {}, live = 0, peak = 0 }

  local function result_of(point)
    local med = point.plan()
    local samples, at = {}, {}
    for i = 1, 20 do samples[i], at[i] = med * (1 + (i - 10) / 1000), i * 1e6 end
    return { n = 20, n_eff = 18, rounds = 5, inner = 4, warm_ns = 1e8, warm_calls = 100,
      first_ns = med * 3, min = samples[1], p25 = samples[5], med = med, p75 = samples[15],
      p95 = samples[19], p99 = samples[20], max = samples[20], mean = med, sd = 1, mad = 1,
      ci_lo = med * 0.99, ci_hi = med * 1.01, ci_level = 0.95, ci_how = 'order', r1 = 0.1,
      drift = 0, sentinel = 0, flags = lab.flags or {}, grade = lab.grade or 'A',
      stop = 'precision', thresholds = 'fixed', t0_ns = 5e12,
      samples = samples, at = at, mark = { true } }
  end

  function lab.block(points, protocol, _, tick)
    lab.blocks[#lab.blocks + 1] = #points
    lab.orders[#lab.orders + 1] = protocol.seed
    local out = {}
    tick('', 1)
    for i, point in ipairs(points) do out[i] = result_of(point) end
    return out
  end
  function lab.protocol(given)
    local out = { precision = 0.01, passes = 1, max_passes = 1, version = 2 }
    for key, value in pairs(given) do out[key] = value end
    return out
  end
  function lab.scoped(fn) fn() end
  function lab.shift(seed) lab.shifts[#lab.shifts + 1] = seed end
  function lab.inputs(context) return type(context) == 'table' and context.inputs or nil end
  function lab.moved(context) return context end
  function lab.memory() return lab.live end
  function lab.live_bytes() return lab.live end
  function lab.peak_above(fn)
    fn()
    return lab.peak
  end
  function lab.seed(seed) lab.seeds[#lab.seeds + 1] = seed end
  function lab.stopping() return false end
  function lab.crash_note() end
  function lab.lease() return nil end
  function lab.command() return nil end
  function lab.is_quiet() return not lab.busy end
  function lab.threads() return 2 end
  function lab.calibrate(say)
    say 'nothing'
    lab.calibrations = (lab.calibrations or 0) + 1
    local rows = { { name = 'fma.f32', threads = lab.threads(), value = 1e11, unit = 'flop/s' } }
    if not lab.busy then
      rows[#rows + 1] = { name = 'noise.aa', threads = lab.threads(), value = 0.01, unit = '1' }
    end
    return rows
  end
  function lab.facts()
    return { machine = { cpu = 'test', cores = 2 },
      device = { kind = 'cpu', uuid = 'cpu', name = 'test' },
      build = { ridge = '0', debug = false }, env = { governor = 'none', vars = { threads = 2 } } }
  end
  return lab
end

return M
