-- SPDX-License-Identifier: MIT
--
-- What no picture is made of, and figures that cannot be saved; the sentences that say so are
-- approved (approved_spec.lua).

local M = {}

local function with(base, more)
  local out = {}
  for name, value in pairs(base) do out[name] = value end
  for name, value in pairs(more or {}) do out[name] = value end
  return out
end

local COLUMNS = { x = 'width', y = 'batch', z = 'fwd' }
local OK = { state = 'ok', width = 1, batch = 2, fwd = 3, ns = 4, trial = 1, sample = 1,
  point = 'a' }
local BAD = { state = 'error', width = 1, batch = 2, fwd = 3 }

--- Kind, rows, options.
M.WRONG = {
  { 'slice', { OK }, {} }, { 7, { OK }, {} }, { 'map', 7, COLUMNS }, { 'map', {}, COLUMNS },
  { 'map', { OK, 'row' }, COLUMNS }, { 'map', { OK }, { z = 'fwdd', x = 'width', y = 'batch' } },
  { 'map', { OK }, { z = 'fwd', x = 'wide', y = 'batch' } },
  { 'map', { OK }, { z = 'fwd', x = 'width', y = 'batches' } },
  { 'map', { BAD }, COLUMNS }, { 'map', { OK }, with(COLUMNS, { layer = 'dense' }) },
  { 'map', { OK }, with(COLUMNS, { ratio = true }) },
  { 'map', { OK }, with(COLUMNS, { time = 'quiet' }) },
  { 'map', { with(OK, { fwd_p95 = 4 }) }, with(COLUMNS, { time = 'quiet' }) },
  { 'map', { OK }, with(COLUMNS, { better = 'larger' }) },
  { 'map', { OK }, with(COLUMNS, { theme = 'grey' }) },
  { 'map', { OK }, with(COLUMNS, { colour = 'red' }) },
  { 'map', { with(OK, { fwd = 'fast' }) }, COLUMNS },
  { 'map', { with(OK, { fwd = 1 / 0 }) }, COLUMNS },
  { 'ratio', { OK }, COLUMNS }, { 'ratio', { OK }, with(COLUMNS, { a = 'width=1', b = 'x' }) },
  { 'ratio', { OK }, with(COLUMNS, { a = 'width=1', b = 'width=1' }) },
  { 'ratio', { OK }, with(COLUMNS, { a = 'width=1', b = 'width=2' }) },
  { 'ratio', { OK }, with(COLUMNS, { a = 'width=2', b = 'width=1' }) },
  { 'ratio', { OK }, with(COLUMNS, { a = 'wide=2', b = 'width=1' }) },
  { 'ratio', { OK }, with(COLUMNS, { a = 'width=2', b = 'wide=1' }) },
  { 'winner', { OK }, COLUMNS }, { 'winner', { OK }, with(COLUMNS, { of = 'width' }) },
  { 'winner', { OK }, with(COLUMNS, { of = 'wide' }) },
  { 'winner', { OK }, { z = 'fwd', of = 'width' } },
  { 'winner', { BAD }, with(COLUMNS, { of = 'width' }) },
  { 'efficiency', { OK }, COLUMNS }, { 'uncertainty', { OK }, COLUMNS },
  { 'uncertainty', { OK }, { x = 'width', y = 'batch' } },
  { 'slices', { OK }, { y = 'fwd' } }, { 'slices', { OK }, { x = 'width' } },
  { 'slices', { OK }, { x = 'wide', y = 'fwd' } },
  { 'slices', { BAD }, { x = 'width', y = 'fwd' } },
  { 'slices', { with(OK, { width = 'wide' }) }, { x = 'width', y = 'fwd' } },
  { 'steps', { OK }, {} }, { 'steps', { BAD }, { x = 'width', y = 'fwd' } },
  { 'steps', { OK }, { x = 'width', y = 'fwd', tile = 1 } },
  { 'steps', { OK }, { x = 'wide', y = 'fwd' } }, { 'steps', { OK }, { x = 'width', y = 'bwd' } },
  { 'effects', { OK }, { y = 'fwd' } }, { 'effects', { OK }, { y = 'fwd', params = 'width' } },
  { 'effects', { OK }, { y = 'fwd', params = 'wide' } }, { 'effects', { OK }, { y = 'bwd' } },
  { 'roofline', { OK }, { y = 'fwd' } },
  { 'roofline', { with(OK, { fwd_flops = 1, fwd_bytes = 1 }) }, { y = 'bwd' } },
  { 'pareto', { OK }, { y = 'fwd' } }, { 'pareto', { OK }, { x = 'fwd' } },
  { 'pareto', { BAD }, { x = 'width', y = 'fwd' } },
  { 'pareto', { OK }, { x = 'wide', y = 'fwd' } },
  { 'pareto', { OK }, { x = 'width', y = 'fwd', better_x = 'more' } },
  { 'forest', { OK }, {} }, { 'forest', { { ratio = -1 } }, {} },
  { 'forest', { { ratio = 'a' } }, {} },
  { 'samples', { { trial = 1 } }, {} }, { 'samples', { OK, { trial = 1 } }, {} },
  { 'distribution', { with(OK, { ns = 0 }) }, {} }, { 'distribution', { { trial = 1 } }, {} },
  { 'threads', { OK }, { y = 'fwd' } }, { 'threads', { BAD }, { x = 'width', y = 'fwd' } },
  { 'threads', { OK }, { x = 'width', y = 'bwd' } },
  { 'history', { OK }, { y = 'fwd' } }, { 'history', { with(OK, { run = 'a' }) }, { y = 'fwd' } },
  { 'history', { with(BAD, { run = 'a', began = 1 }) }, { y = 'fwd' } },
  { 'history', { OK }, { y = 'fwd', other_protocol = -1 } },
  { 'landscape', { OK }, { dtype = 'f16' } },
  { 'landscape', { with(OK, { dtype = 'f16' }) }, { dtype = 'f32' } },
  { 'landscape', { with(OK, { dtype = 'f16' }), with(OK, { dtype = 'f32' }) }, {} },
  { 'landscape', { with(OK, { param_count = 1, peak_memory_mb = 1 }) }, {} },
  { 'landscape', { OK }, {} },
  { 'batch', { OK }, {} }, { 'batch', { { batch = 1, peak_bytes = 0 } }, {} },
  { 'batch', { { peak_bytes = 5 } }, {} },
  { 'training', { OK }, {} }, { 'training', { { loss = 1 } }, {} },
  { 'training', { { loss = 0 / 0, seconds = 1 } }, {} },
  { 'training', { { loss = 1, seconds = 1 } }, { smooth = 0 } },
  { 'timeline', { OK }, {} },
  { 'timeline', { { name = 'a', device = 'd', stream = 0, begin_s = 1, end_s = 1 } }, {} },
  { 'timeline', { { name = 'a', device = 'd', stream = 0, begin_s = 1, end_s = 2 } },
    { from = 1, to = 1 } },
  { 'timeline', { { name = 'a', device = 'd', stream = 0, begin_s = 1, end_s = 2 } },
    { from = -1 } },
  { 'memory', { OK }, {} }, { 'memory', { { at_s = 1, live = 0 }, { at_s = 2, live = 0 } }, {} },
  { 'memory', { { at_s = 1, live = 1 }, { at_s = 1, live = 2 } }, {} },
  { 'memory', { { at_s = 1, live = 1 }, { at_s = 2 } }, {} },
  { 'stability', { OK }, {} }, { 'stability', { { step = 1 } }, {} },
  { 'trust', { OK }, {} }, { 'trust', { { ratio = 1 } }, {} },
}

--- Figures that were not saved: size or path.
M.UNSAVED = { { 'a.jpg' }, { 7 }, { 'a.png', { size = 7 } }, { 'a.png', { size = { 'a', 'b' } } },
  { 'a.png', { size = { 479, 400 } } }, { 'a.png', { size = { 480, 399 } } },
  { 'a.png', { theme = 'grey' } }, { 'a.png', { scale = 100 } }, { 'a.png', { scale = 1e-9 } },
  { 'a.png', { colour = 1 } } }

return M
