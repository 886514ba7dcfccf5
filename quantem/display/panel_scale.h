#pragma once
// How large a panel's image is drawn. Private to the figures.

#include "quantem/display/figure.h"

namespace quantem {

// How much longer than the shorter one each side of an image pixel is: {1, 1} for square or unknown pixels.
Pair pixel_stretch(const Panel& panel);
// Drawn pixels along each side of one pixel of panel.picture: a whole number times the stretch.
Pair drawn_scale(const Panel& panel);

}  // namespace quantem
