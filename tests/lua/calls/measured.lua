-- SPDX-License-Identifier: MIT
-- A small sweep that random calls ask: ridge measured.lua DB.

local ridge = require 'ridge'

ridge.sweep 'fit' { space = { width = { 1, 2 }, kind = { 'a', 'b' } }, protocol = 'quick',
  setup = function(p) return ridge.ones(4 * p.width) end,
  measure = function(p, x, m)
    m:metric('square', p.width * p.width)
    m:time('fwd', ridge.capture(function() return x + 1 end))
  end }:run { db = arg[1], calibrate = false, progress = 'off' }
