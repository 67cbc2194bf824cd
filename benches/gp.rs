//! How fast is regression by Gaussian processes on one core, and how much memory does it take, beside scikit-learn and george?
//!
//! Units: seconds of processor time on one thread. A ratio is the peer's time by ours, above 1 where ours is faster, as the median of
//! rounds in which the sides take turns. The limit is fused multiply-adds of f64 in registers, measured in the same rounds, for
//! the FLOP of the algebra alone: n^3 / 3 of a fit, n^3 of a likelihood with derivatives. Answers are compared before they are timed:
//! likelihood, derivatives, means and variances of both sides under the same parameters, and the likelihood of both optima.
//!
//! The covariance is a constant times `rbf` with a length for each of 4 dimensions, and white noise: 6 parameters. The peers are a
//! Python with scikit-learn and george (`pip install scikit-learn george`), named by BOXWORK_PYTHON. The bars are those of the
//! specification (section 10).

mod support;

#[path = "gp/world.rs"]
mod world;
#[path = "gp/peers.rs"]
mod peers;
#[path = "gp/own.rs"]
mod own;

use support::{Arguments, print_machine};

const HELP: &str = "\
what=fit        covariances, factor and weights of n=2000 samples
what=predict    means, and means with deviations, of new=1000 points
what=gradient   the likelihood and its derivatives, n=2000 and n=4000
what=optimise   parameters of the greatest likelihood, 1,000 samples
what=memory     the most memory of a likelihood with derivatives
what=stream     the most memory of predictions by the shipped pipeline, of 100,000 and of 1,000,000 points
what=shares     where the time of a fit and of a gradient goes
what=seed       rows appended one by one, as the source of the specification does, beside tiles
several, parted by commas; the default is all.
n=LIST new=1000 rounds=5 peers=sklearn,george results=FILE";

fn main() {
    let arguments = Arguments::read(&["what", "n", "new", "rounds", "peers", "results"]);
    let what = arguments
        .text("what")
        .unwrap_or("fit,predict,gradient,optimise,memory,stream,shares,seed")
        .to_owned();
    if what == "help" {
        println!("{HELP}");
        return;
    }
    println!(
        "question    how fast is regression by Gaussian processes on one core, beside scikit-learn and george?"
    );
    print_machine();
    let mut bench = peers::Bench::new(&arguments);
    let sizes = |default: &str| -> Vec<usize> {
        let text = arguments.text("n").unwrap_or(default);
        text.split(',').map(|number| number.parse().unwrap_or_else(|_| panic!("n={text}"))).collect()
    };
    for what in what.split(',') {
        println!();
        match what {
            "fit" => sizes("1000,2000").into_iter().for_each(|n| bench.fit(n)),
            "predict" => sizes("1000,2000").into_iter().for_each(|n| bench.predict(n)),
            "gradient" => sizes("1000,2000,4000").into_iter().for_each(|n| bench.gradient(n)),
            "optimise" => sizes("1000").into_iter().for_each(|n| bench.optimise(n)),
            "memory" => sizes("4000").into_iter().for_each(|n| bench.memory(n)),
            "stream" => sizes("500").into_iter().for_each(|n| bench.stream(n)),
            "shares" => sizes("2000").into_iter().for_each(own::shares),
            "seed" => own::seed(&sizes("32,64,96,128,512,1024,4096")),
            other => {
                eprintln!("what={other} is no question of this bench: what=help lists them");
                std::process::exit(2);
            }
        }
    }
    bench.finish(&arguments);
}
