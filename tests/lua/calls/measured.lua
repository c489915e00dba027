-- SPDX-License-Identifier: MIT
-- Two small sweeps that random calls ask: ridge measured.lua DB. The points of `fit` are timed, so
-- a busy machine may give all of them grade D, which has no say in some answers; those of `counted`
-- have metrics alone, and no grade.

local ridge = require 'ridge'

ridge.sweep 'fit' { space = { width = { 1, 2 }, kind = { 'a', 'b' } }, protocol = 'quick',
  setup = function(p) return ridge.ones(4 * p.width) end,
  measure = function(p, x, m)
    m:metric('square', p.width * p.width, { better = 'lower' })
    m:time('fwd', ridge.capture(function() return x + 1 end))
  end }:run { db = arg[1], calibrate = false, progress = 'off' }

ridge.sweep 'counted' { space = { width = { 1, 2, 4 }, kind = { 'a', 'b' } },
  anchor = { width = 1, kind = 'a' }, protocol = 'quick',
  measure = function(p, _, m)
    m:metric('square', p.width * p.width, { better = 'lower' })
    m:metric('share', 1 / p.width, { better = 'higher' })
  end }:run { db = arg[1], calibrate = false, progress = 'off' }
