-- SPDX-License-Identifier: MIT
--- Nets in fewer bits: what it costs beside what it gains.

local late = require 'ridge.late'

return late.namespace({}, {
  static = { 'ridge.quant.static', 'static' }, int8 = { 'ridge.quant.static', 'int8' },
  dynamic = { 'ridge.quant.dynamic', 'dynamic' },
  half = { 'ridge.quant.half', 'half' },
  weights = { 'ridge.quant.weights', 'weights' },
  prepare = { 'ridge.quant.prepare', 'prepare' }, convert = { 'ridge.quant.prepare', 'convert' },
  sensitivity = { 'ridge.quant.sensitivity', 'sensitivity' },
  search = { 'ridge.quant.search', 'search' },
  smooth = { 'ridge.quant.smooth', 'smooth' },
  report = { 'ridge.quant.report', 'report' },
  compare = { 'ridge.quant.compare', 'compare' },
}, 'quant')
